package firesteel;

import java.net.URLClassLoader;
import org.apache.spark.api.plugin.DriverPlugin;
import org.apache.spark.api.plugin.ExecutorPlugin;
import org.apache.spark.api.plugin.SparkPlugin;
import org.apache.spark.executor.ExecutorClassLoader;

/**
 * Has tasks of sessions that have brought no jar find their classes where Spark finds its own.
 *
 * Spark gives each session's tasks a class loader, also where there is nothing in it. It keeps the code that it has
 * generated for a query by class loader: that of each new session is compiled again, and every name that the compiler
 * only tries is asked for at the driver. PySpark's clients can bring classes in jars only, so that nothing is missed.
 */
public final class TaskClasses implements SparkPlugin, ExecutorPlugin {
    @Override
    public DriverPlugin driverPlugin() {
        return null;
    }

    @Override
    public ExecutorPlugin executorPlugin() {
        return this;
    }

    /** In the thread of the task, which got its class loader a moment ago. */
    @Override
    public void onTaskStart() {
        Thread thread = Thread.currentThread();
        if (thread.getContextClassLoader() instanceof ExecutorClassLoader session && hasNoJars(session)) {
            thread.setContextClassLoader(TaskClasses.class.getClassLoader());
        }
    }

    private static boolean hasNoJars(ExecutorClassLoader session) {
        return session.parentLoader().getParent() instanceof URLClassLoader jars && jars.getURLs().length == 0;
    }
}
