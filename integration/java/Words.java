import java.net.URLDecoder;
import java.net.URLEncoder;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.NoSuchElementException;

/**
 * The words of a line: separated by single blanks, each percent-encoded byte by byte, so that a word may be
 * empty, or any bytes at all. Text is UTF-8.
 */
final class Words implements Iterable<String> {
    private final List<String> words = new ArrayList<>();

    static Words of(Object... values) {
        Words result = new Words();
        for (Object value : values) {
            result.add(value);
        }
        return result;
    }

    static Words parse(String line) {
        Words result = new Words();
        for (String word : line.split(" ", -1)) {
            result.words.add(word);
        }
        return result;
    }

    Words add(Object value) {
        byte[] bytes = value instanceof byte[] b ? b : String.valueOf(value).getBytes(StandardCharsets.UTF_8);
        words.add(URLEncoder.encode(new String(bytes, StandardCharsets.ISO_8859_1),
                StandardCharsets.ISO_8859_1));
        return this;
    }

    Words addAll(Iterable<?> values) {
        for (Object value : values) {
            add(value);
        }
        return this;
    }

    int size() {
        return words.size();
    }

    byte[] bytes(int index) {
        if (index >= words.size()) {
            throw new NoSuchElementException("argument " + index + " is missing");
        }
        return URLDecoder.decode(words.get(index), StandardCharsets.ISO_8859_1)
                .getBytes(StandardCharsets.ISO_8859_1);
    }

    String text(int index) {
        return new String(bytes(index), StandardCharsets.UTF_8);
    }

    String text(int index, String otherwise) {
        return index < words.size() ? text(index) : otherwise;
    }

    long number(int index) {
        return Long.parseLong(text(index));
    }

    /** The words from an index on. */
    Words from(int index) {
        Words result = new Words();
        result.words.addAll(words.subList(index, words.size()));
        return result;
    }

    @Override
    public Iterator<String> iterator() {
        List<String> texts = new ArrayList<>();
        for (int i = 0; i < words.size(); i++) {
            texts.add(text(i));
        }
        return texts.iterator();
    }

    @Override
    public String toString() {
        return String.join(" ", words);
    }
}
