package rlockd.bench;

import java.util.Arrays;
import java.util.Locale;

/** Durations in nanoseconds; not for several threads. */
final class Samples {
    private long[] ns = new long[4096];
    private int count;

    void add(long duration) {
        if (count == ns.length) {
            ns = Arrays.copyOf(ns, 2 * count);
        }
        ns[count++] = duration;
    }

    void addAll(Samples others) {
        for (int i = 0; i < others.count; i++) {
            add(others.ns[i]);
        }
    }

    int count() {
        return count;
    }

    private double percentileUs(double share) {
        return count == 0 ? 0 : ns[(int) (share * (count - 1) + 0.5)] / 1000.0;
    }

    /** Sorts. */
    String json(String name) {
        Arrays.sort(ns, 0, count);
        return String.format(Locale.ROOT,
            "\"%1$s_count\": %2$d, \"%1$s_p50_us\": %3$.1f, \"%1$s_p99_us\": %4$.1f",
            name, count, percentileUs(0.5), percentileUs(0.99));
    }
}
