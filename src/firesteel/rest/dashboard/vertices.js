// What is known of a vertex: figures of what has finished, with those of what runs; Spark's tasks where Spark has told of them.
import { bytes, count, duration, exact, known } from "./format.js";

const READS = new Set(["source", "splits", "script"]);

export function figuresOf(job, vertex) {
  const { members, isReader } = regionOf(job, vertex);
  const sum = (name, measure) => {
    const ended = isTold(vertex, name) ? known(vertex.io[name]) : null;
    const running = isReader ? vertex.progress.reduce((total, each) => total + (each[name] ?? 0), 0) : 0;
    return ended === null && !running ? null : measure((ended ?? 0) + running);
  };
  return {
    rowsRead: sum("rows_read", count), bytesRead: sum("bytes_read", bytes),
    rowsWritten: sum("rows_written", count), bytesWritten: sum("bytes_written", bytes),
    sparkTime: isTold(vertex, "spark_ms") ? duration(vertex.io.spark_ms) : null,
    memoryPeak: isTold(vertex, "memory_peak_bytes") ? bytes(vertex.io.memory_peak_bytes) : null,
    ...sparkTasks(vertex), isOfRegion: members.length > 1,
  };
}

// What a region's Spark has read is that of its only vertex that reads what was there before; of several, nobody knows which did.
function regionOf(job, vertex) {
  const members = job.vertices.filter((each) => each.first_region === vertex.first_region);
  const inside = new Set(members.map((each) => each.id));
  const reads = (each) => each.kinds.some((kind) => READS.has(kind)) || job.edges.some((edge) => edge.target === each.id && !inside.has(edge.source));
  const readers = members.filter(reads);
  return { members, isReader: members.length === 1 || (readers.length === 1 && readers[0].id === vertex.id) };
}

// Whether some subtask has finished, and all that have know the figure: those that have not finished lack every one.
function isTold(vertex, name) {
  const finished = vertex.tasks.FINISHED ?? 0;
  const isKnown = !vertex.io_uncounted.includes(name);
  return finished > 0 && isKnown && (!vertex.io_lacking.includes(name) || finished < vertex.parallelism);
}

// Done of total where every subtask has finished or tells of itself; else those that are known to be done. Spark's tasks are those
// of a whole region, and of many regions that run only some are told.
function sparkTasks(vertex) {
  const ended = isTold(vertex, "tasks") ? known(vertex.io.tasks) : null;
  const sum = (name) => vertex.progress.reduce((total, each) => total + (each[name] ?? 0), ended ?? 0);
  const [done, total] = [sum("tasks_done"), sum("tasks_total")];
  if (ended === null && !total) return { sparkTasks: null, sparkShare: null };
  if ((vertex.tasks.FINISHED ?? 0) + vertex.progress.length < vertex.parallelism) return { sparkTasks: `${exact(done)} so far`, sparkShare: null };
  return vertex.progress.length ? { sparkTasks: `${exact(done)}/${exact(total)}`, sparkShare: total ? done / total : null } : { sparkTasks: exact(total), sparkShare: null };
}

export function waitsFor(vertex) {
  return vertex.progress.find((each) => each.waits_for)?.waits_for ?? "";
}

export function vertexOfRegion(job, region) {
  return job.vertices.find((each) => each.first_region <= region && region < each.first_region + each.parallelism);
}
