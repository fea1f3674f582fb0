// What is known of a vertex: figures of what has finished, with those of what runs; Spark's tasks where Spark has told of them.
import { bytes, count, exact, known } from "./format.js";

export function figuresOf(vertex) {
  const hasEnded = Object.keys(vertex.tasks).includes("FINISHED");
  const sum = (name, measure) => {
    const ended = hasEnded && !vertex.io_lacking.includes(name) ? known(vertex.io[name]) : null;
    const running = vertex.progress.reduce((total, each) => total + (each[name] ?? 0), 0);
    return ended === null && !running ? null : measure((ended ?? 0) + running);
  };
  return {
    rowsRead: sum("rows_read", count), bytesRead: sum("bytes_read", bytes),
    rowsWritten: sum("rows_written", count), bytesWritten: sum("bytes_written", bytes),
    sparkTasks: sparkTasks(vertex, hasEnded),
  };
}

// Done of total while it runs; all of them in the end.
function sparkTasks(vertex, hasEnded) {
  const total = vertex.progress.reduce((sum, each) => sum + (each.tasks_total ?? 0), 0);
  if (total) return `${exact(vertex.progress.reduce((sum, each) => sum + (each.tasks_done ?? 0), 0))}/${exact(total)}`;
  return hasEnded && !vertex.io_lacking.includes("tasks") ? exact(vertex.io.tasks) : null;
}

export function sparkShare(vertex) {
  const total = vertex.progress.reduce((sum, each) => sum + (each.tasks_total ?? 0), 0);
  return total ? vertex.progress.reduce((sum, each) => sum + (each.tasks_done ?? 0), 0) / total : null;
}

export function waitsFor(vertex) {
  return vertex.progress.find((each) => each.waits_for)?.waits_for ?? "";
}

export function vertexOfRegion(job, region) {
  return job.vertices.find((each) => each.first_region <= region && region < each.first_region + each.parallelism);
}
