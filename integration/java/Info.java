/** A payload of a class of its own, as a service of Java's would have one. */
public final class Info {
    public String version;
    public int weight;
}
