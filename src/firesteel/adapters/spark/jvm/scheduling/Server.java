package firesteel;

import java.lang.reflect.Field;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.hadoop.conf.Configuration;
import org.apache.spark.SparkContext;
import org.apache.spark.scheduler.Pool;
import org.apache.spark.scheduler.Schedulable;
import org.apache.spark.scheduler.SchedulingMode;
import org.apache.spark.scheduler.TaskSetManager;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.connect.service.SparkConnectServer;
import org.apache.spark.sql.internal.SQLConf$;
import scala.Enumeration;
import scala.collection.mutable.ArrayBuffer;

/** Spark's Connect server, in whose task scheduler pools take turns, and whose settings of Hadoop are soon written. */
public final class Server {
    private Server() {}

    public static void main(String[] arguments) {
        SparkContext context = SparkContext.getOrCreate();
        Turns.begin(context.taskScheduler().rootPool());
        forgetOrigins(context.hadoopConfiguration());
        shareGeneratedCode();
        SparkConnectServer.main(arguments);
    }

    /**
     * Have sessions that have brought no classes use Spark's own class loader: all that they could find is there. Spark keeps
     * the code that it has generated for a query by class loader, so that each session's queries would be compiled again, and
     * run cold. Its Connect server wants it so for sessions made of one that it makes; it takes the one that is there.
     */
    private static void shareGeneratedCode() {
        SQLConf$ settings = SQLConf$.MODULE$;
        SparkSession.builder()
                .config(settings.ARTIFACTS_SESSION_ISOLATION_ENABLED().key(), true)
                .config(settings.ARTIFACTS_SESSION_ISOLATION_ALWAYS_APPLY_CLASSLOADER().key(), false)
                .getOrCreate();
    }

    /**
     * Have settings, and their copies, no notes of which of Hadoop's own files the defaults are from.
     *
     * <p>All settings, 1,100 of them, travel with each stage that reads or writes files, and Spark writes them some times
     * more to see whether it can. Hadoop compresses the note of each by itself, which takes four fifths of the time; of a
     * small query it was a seventh. Settings that somebody has made keep theirs. Another Hadoop than ours may have no such
     * notes.
     */
    public static void forgetOrigins(Configuration settings) {
        try {
            settings.size(); // reads the files
            Field notes = Configuration.class.getDeclaredField("updatingResource");
            notes.setAccessible(true);
            if (notes.get(settings) instanceof Map<?, ?> origins) {
                Origins kept = new Origins();
                origins.forEach((name, files) -> kept.put((String) name, (String[]) files));
                notes.set(settings, kept);
            }
        } catch (ReflectiveOperationException | RuntimeException another) {
            // then it takes the time
        }
    }

    /** Of settings that somebody has made. Files of defaults are read again when Hadoop gets to know of one more. */
    private static final class Origins extends ConcurrentHashMap<String, String[]> {
        @Override
        public String[] put(String name, String[] files) {
            return files.length == 1 && files[0].endsWith("-default.xml") ? remove(name) : super.put(name, files);
        }
    }

    /**
     * Holds all of Spark's scheduler pools, and orders them as Spark does but for ties: of pools that are equal, the one
     * that was given a task longest ago comes first. Spark takes the first by name. So as many busy pools as there are
     * cores would get every core that they free, for as long as they have tasks, and one with a later name none.
     *
     * <p>A pool is made when it is first asked for, as Spark does. Called under the lock of Spark's task scheduler.
     */
    private static final class Turns extends Pool {
        private static final String NAME = "turns";
        private static final int WEIGHT = 1;

        private final Pool root;
        private long given = 0;

        private Turns(Pool root) {
            super(NAME, SchedulingMode.FAIR(), 0, WEIGHT);
            this.root = root;
        }

        /** Take over the pools of a scheduler, which has no tasks yet. */
        static void begin(Pool root) {
            List<Schedulable> pools = new ArrayList<>(root.schedulableQueue());
            Turns turns = new Turns(root);
            for (Schedulable pool : pools) {
                root.removeSchedulable(pool);
                turns.add(pool.name(), pool.schedulingMode(), pool.minShare(), pool.weight());
            }
            root.addSchedulable(turns);
            root.schedulableNameToSchedulable().remove(NAME); // a user's pool may have that name
        }

        @Override
        public Schedulable getSchedulableByName(String name) {
            Schedulable known = schedulableNameToSchedulable().get(name);
            return known != null ? known : add(name, SchedulingMode.FIFO(), 0, WEIGHT);
        }

        private Schedulable add(String name, Enumeration.Value mode, int minShare, int weight) {
            Turn turn = new Turn(name, mode, minShare, weight);
            addSchedulable(turn);
            root.schedulableNameToSchedulable().put(name, turn); // where Spark's pages look for it
            return turn;
        }

        @Override
        public ArrayBuffer<TaskSetManager> getSortedTaskSetQueue() {
            List<Turn> turns = new ArrayList<>();
            schedulableQueue().forEach(pool -> turns.add((Turn) pool));
            turns.sort(ORDER);
            ArrayBuffer<TaskSetManager> found = new ArrayBuffer<>();
            turns.forEach(turn -> found.addAll(turn.getSortedTaskSetQueue()));
            return found;
        }

        /** Spark's FairSchedulingAlgorithm, and the time of the last task instead of the name. */
        private static final Comparator<Turn> ORDER =
                Comparator.<Turn, Boolean>comparing(turn -> !turn.isNeedy())
                        .thenComparingDouble(turn -> turn.isNeedy() ? turn.runningTasks() / (double) turn.minShare() : 0)
                        .thenComparingDouble(turn -> turn.runningTasks() / (double) turn.weight())
                        .thenComparingLong(turn -> turn.last);

        /** One pool. */
        private final class Turn extends Pool {
            /** Number of the last task that it was given, of all tasks. */
            private long last = 0;

            Turn(String name, Enumeration.Value mode, int minShare, int weight) {
                super(name, mode, minShare, weight);
            }

            boolean isNeedy() {
                return runningTasks() < minShare();
            }

            @Override
            public void increaseRunningTasks(int tasks) {
                given += tasks;
                last = given;
                super.increaseRunningTasks(tasks);
            }
        }
    }
}
