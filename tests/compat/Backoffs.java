package org.apache.flink.runtime.executiongraph.failover;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.Field;
import java.util.concurrent.TimeUnit;
import org.apache.flink.configuration.ConfigOption;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.configuration.FallbackKey;
import org.apache.flink.configuration.JobManagerOptions;
import org.apache.flink.configuration.RestartStrategyOptions;
import org.apache.flink.configuration.WebOptions;
import org.apache.flink.util.clock.ManualClock;

/** What Flink's own restart strategies answer. Lives in their package, as their constructors do. */
public final class Backoffs {
    public static void main(String[] arguments) throws Exception {
        switch (arguments[0]) {
            case "options" -> options();
            case "names" -> names(arguments);
            default -> answers();
        }
    }

    /** A line for each line of standard input: `KIND PARAMETERS... ; TIMES...` gives `NEW/DELAY`, or `NEW/-`, a failure. */
    private static void answers() throws Exception {
        var lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] halves = line.split(" ; ");
            var clock = new ManualClock();
            var strategy = strategy(halves[0].split(" "), clock);
            long now = 0;
            var out = new StringBuilder();
            for (String time : halves[1].split(" ")) {
                clock.advanceTime(Long.parseLong(time) - now, TimeUnit.MILLISECONDS);
                now = Long.parseLong(time);
                boolean isNew = strategy.notifyFailure(new RuntimeException());
                String delay = strategy.canRestart() ? Long.toString(strategy.getBackoffTime()) : "-";
                out.append(isNew ? "1/" : "0/").append(delay).append(' ');
            }
            System.out.println(out.toString().strip());
        }
    }

    private static RestartBackoffTimeStrategy strategy(String[] words, ManualClock clock) {
        return switch (words[0]) {
            case "fixed-delay" -> new FixedDelayRestartBackoffTimeStrategy(
                    Integer.parseInt(words[1]), Long.parseLong(words[2]));
            case "failure-rate" -> new FailureRateRestartBackoffTimeStrategy(
                    clock, Integer.parseInt(words[1]), Long.parseLong(words[2]), Long.parseLong(words[3]));
            default -> new ExponentialDelayRestartBackoffTimeStrategy(
                    clock,
                    Long.parseLong(words[1]),
                    Long.parseLong(words[2]),
                    Double.parseDouble(words[3]),
                    Long.parseLong(words[4]),
                    Double.parseDouble(words[5]),
                    Integer.parseInt(words[6]));
        };
    }

    /** `KEY DEFAULT FALLBACK-KEYS...` of every option. */
    private static void options() throws Exception {
        for (Field field : RestartStrategyOptions.class.getDeclaredFields()) {
            if (field.getType() == ConfigOption.class) {
                show((ConfigOption<?>) field.get(null));
            }
        }
        show(JobManagerOptions.EXECUTION_FAILOVER_STRATEGY);
        show(WebOptions.MAX_EXCEPTION_HISTORY_SIZE);
    }

    private static void show(ConfigOption<?> option) {
        var out = new StringBuilder(option.key()).append(' ').append(option.hasDefaultValue() ? option.defaultValue() : "-");
        for (FallbackKey key : option.fallbackKeys()) {
            out.append(' ').append(key.getKey());
        }
        System.out.println(out);
    }

    /** The strategy that each name stands for, or `refused`. */
    private static void names(String[] arguments) {
        for (int i = 1; i < arguments.length; i++) {
            var given = new Configuration();
            given.set(RestartStrategyOptions.RESTART_STRATEGY, arguments[i]);
            String made = "refused";
            try {
                made = RestartBackoffTimeStrategyFactoryLoader.createRestartBackoffTimeStrategyFactory(
                                given, new Configuration(), false)
                        .create()
                        .toString();
            } catch (IllegalArgumentException refused) {
                // said so
            }
            System.out.println(made.replaceAll("BackoffTimeStrategy.*", ""));
        }
    }
}
