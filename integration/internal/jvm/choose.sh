# Functions that choose releases of ZooKeeper's server (zookeeper) and of Java Curator (curator), and have Maven fetch their
# jars. The script that reads this has functions die and warn. jvm.go looks for the jars at the same place.
poms=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=${XDG_CACHE_HOME:-$HOME/.cache}

# fetch NAME VERSION [PROPERTY...]: Maven puts the jars of a release into the cache.
fetch() {
	local name=$1 version=$2 dir log
	shift 2
	mkdir -p "$cache/$name-jars"
	dir=$(mktemp -d "$cache/$name-jars/fetching.XXXXXX")
	log=$dir/log
	if ! mvn -q -B -ntp -f "$poms/$name.xml" "-Dversion=$version" "$@" \
		dependency:copy-dependencies -DincludeScope=runtime "-DoutputDirectory=$dir/lib" >"$log" 2>&1; then
		cat "$log" >&2
		rm -rf "$dir"
		die "Maven cannot fetch $name $version, see above; the version debian uses Debian's package"
	fi
	rm -f "$log"
	mv -T "$dir" "$cache/$name-jars/$version" 2>/dev/null || rm -rf "$dir" # another run was faster
}

# choose NAME VERSION sets wanted to the release to use: VERSION, or the usual one if that is empty. Its jars are in the
# cache then, unless it is debian. The jars that a server logs and measures with are older in older releases.
choose() {
	local properties=()
	wanted=${2:-$(cat "$poms/$1.version")}
	if [ "$wanted" = debian ] || [ -d "$cache/$1-jars/$wanted" ]; then return; fi
	if ! command -v mvn >/dev/null; then
		[ -z "$2" ] || die "$1 $2 is asked for, but there is no Maven (mvn) to fetch it with"
		warn "no Maven (mvn): Debian's $1 instead of $wanted"
		wanted=debian
		return
	fi
	case $1-$wanted in
	zookeeper-3.5.* | zookeeper-3.6.*) properties=(-Dslf4j=1.7.36 -Dmetrics=3.2.5) ;;
	zookeeper-3.7.*) properties=(-Dslf4j=1.7.35) ;;
	esac
	fetch "$1" "$wanted" "${properties[@]}"
}
