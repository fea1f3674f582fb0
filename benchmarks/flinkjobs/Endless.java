import org.apache.flink.client.program.rest.RestClusterClient;
import org.apache.flink.configuration.ConfigOption;
import org.apache.flink.configuration.ConfigOptions;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.configuration.RestOptions;
import org.apache.flink.runtime.execution.Environment;
import org.apache.flink.runtime.jobgraph.JobGraph;
import org.apache.flink.runtime.jobgraph.JobGraphBuilder;
import org.apache.flink.runtime.jobgraph.JobVertex;
import org.apache.flink.runtime.jobgraph.tasks.AbstractInvokable;

import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.List;
import java.util.concurrent.CountDownLatch;

/** A task that runs until it is cancelled, with a line in a file for each time that one begins; and a job of them. */
public class Endless extends AbstractInvokable {
    private static final ConfigOption<String> NOTES = ConfigOptions.key("notes").stringType().noDefaultValue();

    private final CountDownLatch cancelled = new CountDownLatch(1);

    public Endless(Environment environment) {
        super(environment);
    }

    @Override
    public void invoke() throws Exception {
        Path notes = Path.of(getTaskConfiguration().get(NOTES));
        Files.writeString(notes, "begun\n", StandardOpenOption.CREATE, StandardOpenOption.APPEND);
        cancelled.await();
    }

    @Override
    public void cancel() {
        cancelled.countDown();
    }

    /** PORT of a REST endpoint, PARALLELISM, NOTES: submits the job and prints its id. */
    public static void main(String[] arguments) throws Exception {
        JobVertex vertex = new JobVertex("endless");
        vertex.setInvokableClass(Endless.class);
        vertex.setParallelism(Integer.parseInt(arguments[1]));
        vertex.getConfiguration().set(NOTES, arguments[2]);
        JobGraph job =
                JobGraphBuilder.newStreamingJobGraphBuilder().setJobName("endless").addJobVertices(List.of(vertex)).build();
        Configuration configuration = new Configuration();
        configuration.set(RestOptions.ADDRESS, "localhost");
        configuration.set(RestOptions.PORT, Integer.parseInt(arguments[0]));
        try (RestClusterClient<String> client = new RestClusterClient<>(configuration, "benchmark")) {
            System.out.println(client.submitJob(job).get());
        }
    }
}
