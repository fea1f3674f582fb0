// A job as it was at a moment: a fold of its attempts, as far as they are kept, and of the times of its states.
// What a moment does not tell: Spark's tasks, when former attempts had begun to run, and what was never deployed.
// tests/simulation/moments.py holds it against what the JobMaster itself said at each moment.
import { ROW } from "./attempts.js";

const ENDS = new Set(["FINISHED", "FAILED", "CANCELED"]);
const BEFORE = new Set(["INITIALIZING", "CREATED"]);
const FIGURES = { rows_read: ROW.rowsRead, bytes_read: ROW.bytesRead, rows_written: ROW.rowsWritten, bytes_written: ROW.bytesWritten };
const ORDER = ["FAILED", "CANCELING", "RUNNING", "INITIALIZING", "DEPLOYING", "RECONCILING", "SCHEDULED", "CANCELED", "CREATED", "FINISHED"]; // a vertex is in the first of these that any of its subtasks is in

const hasCome = (ms, at) => ms >= 0 && ms <= at;

// What an attempt was in that had been deployed, or has ended without that.
function stateAt(row, at) {
  if (hasCome(row[ROW.ended], at)) return row[ROW.state];
  return hasCome(row[ROW.running], at) ? "RUNNING" : "DEPLOYING";
}

// When the next attempt began to wait; -1 of the last one. A former master did not say: one that has failed was followed at once.
function followedAt(row, isLast) {
  return row[ROW.followed] >= 0 || isLast || row[ROW.state] === "FINISHED" ? row[ROW.followed] : row[ROW.ended];
}

// By subtask: the rows of each, in the order of their attempts.
function bySubtask(rows) {
  const found = new Map();
  for (const row of rows) {
    const key = row[ROW.subtask];
    if (!found.has(key)) found.set(key, []);
    found.get(key).push(row);
  }
  return [...found.values()];
}

function vertexAt(vertex, rows, at) {
  const tasks = {};
  const count = (state, number = 1) => (tasks[state] = (tasks[state] ?? 0) + number);
  const finished = [];
  let [start, end, attempts] = [-1, -1, 1];
  const subtasks = bySubtask(rows);
  for (const mine of subtasks) {
    const row = mine.findLast((each) => hasCome(each[ROW.deployed], at) || hasCome(each[ROW.ended], at));
    const isOver = row && hasCome(followedAt(row, row === mine.at(-1)), at);
    const state = !row ? "CREATED" : isOver ? "SCHEDULED" : stateAt(row, at);
    count(state);
    if (!row) continue;
    attempts = Math.max(attempts, row[ROW.attempt] + (isOver ? 2 : 1));
    if (isOver || row[ROW.deployed] < 0) continue;
    start = start < 0 ? row[ROW.deployed] : Math.min(start, row[ROW.deployed]);
    if (ENDS.has(state)) end = Math.max(end, row[ROW.ended]);
    if (state === "FINISHED") finished.push(row);
  }
  if (vertex.parallelism > subtasks.length) count("CREATED", vertex.parallelism - subtasks.length);
  const status = ORDER.find((state) => tasks[state]) ?? "CREATED";
  const io = {};
  const lacking = ["tasks", "spark_ms", "memory_peak_bytes"];
  for (const [name, place] of Object.entries(FIGURES)) {
    const isLacking = finished.some((row) => row[place] < 0);
    if (isLacking) lacking.push(name);
    io[name] = isLacking ? -1 : finished.reduce((sum, row) => sum + row[place], 0);
  }
  return { ...vertex, status, tasks, attempts, start_time_ms: start, end_time_ms: ENDS.has(status) ? end : -1, progress: [], io, io_lacking: lacking, io_uncounted: lacking };
}

// A former master has kept the last time of each state only.
function statusAt(job, hasBegun, at) {
  const [first] = job.status_history ?? [];
  if (first && first[1] <= at) return job.status_history.findLast(([, ms]) => ms <= at)[0];
  const [status] = Object.entries(job.timestamps_ms).filter(([, ms]) => ms > 0 && ms <= at).sort((a, b) => a[1] - b[1]).at(-1) ?? ["CREATED"];
  return hasBegun && BEFORE.has(status) ? "RUNNING" : status;
}

// A failure with those that had come with it by then.
const failureAt = (entry, at) => ({ ...entry, concurrent: (entry.concurrent ?? []).filter((each) => each.timestamp_ms <= at) });

export function jobAt(job, data, at) {
  const rows = Map.groupBy(data.attempts, (row) => data.vertices[row[ROW.vertex]]);
  const vertices = job.vertices.map((vertex) => vertexAt(vertex, rows.get(vertex.id) ?? [], at));
  const hasBegun = vertices.some((vertex) => vertex.start_time_ms >= 0);
  const exceptions = job.exceptions.filter((entry) => entry.timestamp_ms <= at).map((entry) => failureAt(entry, at));
  return { ...job, vertices, status: statusAt(job, hasBegun, at), exceptions };
}
