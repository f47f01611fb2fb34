# Functions for directories whose contents are used again, as this user and perhaps as root. The script that
# reads this has a function die.

# private DIR: makes the directory if it is not there (mode 0700), and dies unless it is a directory of this
# user's, no link, into which nobody else can write.
private() {
  [ -e "$1" ] || [ -L "$1" ] || mkdir -p -m 0700 -- "$1" || die "cannot make $1"
  if [ -L "$1" ] || [ ! -d "$1" ] || [ ! -O "$1" ]; then
    die "$1 is not a directory of $(id -un)'s: look at it, and remove it"
  fi
  [ -z "$(find "$1" -maxdepth 0 -perm /022)" ] ||
    die "$1 can be written by others: look into it, then chmod go-w it or remove it"
}

# record FILE: keeps the checksum of what has come, and was verified, for intact.
record() { sha256sum <"$1" >"$1.sha256"; }

# intact FILE: whether it is still what record has seen.
intact() {
  [ -f "$1" ] && [ ! -L "$1" ] && [ -f "$1.sha256" ] && [ "$(sha256sum <"$1")" = "$(cat "$1.sha256")" ]
}
