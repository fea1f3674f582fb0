// A job as it was at a moment: a fold of its attempts, as far as they are kept, and of the times of its states.
// What a moment does not tell: Spark's tasks, when former attempts had begun to run, and states that the job was in more than
// once, of which the last times are known.
import { ROW } from "./attempts.js";

const ENDS = new Set(["FINISHED", "FAILED", "CANCELED"]);
const BEFORE = new Set(["INITIALIZING", "CREATED"]);
const FIGURES = { rows_read: ROW.rowsRead, bytes_read: ROW.bytesRead, rows_written: ROW.rowsWritten, bytes_written: ROW.bytesWritten };
const ORDER = ["FAILED", "CANCELING", "RUNNING", "INITIALIZING", "DEPLOYING", "RECONCILING", "SCHEDULED", "CANCELED", "CREATED", "FINISHED"]; // a vertex is in the first of these that any of its subtasks is in

// What an attempt was at; null before it was deployed. One that another one followed waits for that when it has ended.
function stateAt(row, isLast, at) {
  if (row[ROW.deployed] < 0 || row[ROW.deployed] > at) return null;
  if (row[ROW.ended] >= 0 && row[ROW.ended] <= at) return isLast || row[ROW.state] === "FINISHED" ? row[ROW.state] : "SCHEDULED";
  return row[ROW.running] >= 0 && row[ROW.running] <= at ? "RUNNING" : "DEPLOYING";
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
    const row = mine.findLast((each) => each[ROW.deployed] >= 0 && each[ROW.deployed] <= at);
    const state = row ? stateAt(row, row === mine.at(-1), at) : "CREATED";
    count(state);
    if (!row) continue;
    attempts = Math.max(attempts, row[ROW.attempt] + 1);
    start = start < 0 ? row[ROW.deployed] : Math.min(start, row[ROW.deployed]);
    if (ENDS.has(state)) end = Math.max(end, row[ROW.ended]);
    if (state === "FINISHED") finished.push(row);
  }
  if (vertex.parallelism > subtasks.length) count("CREATED", vertex.parallelism - subtasks.length);
  const status = ORDER.find((state) => tasks[state]) ?? "CREATED";
  const io = {};
  const lacking = ["tasks"];
  for (const [name, place] of Object.entries(FIGURES)) {
    const isLacking = finished.some((row) => row[place] < 0);
    if (isLacking) lacking.push(name);
    io[name] = isLacking ? -1 : finished.reduce((sum, row) => sum + row[place], 0);
  }
  return { ...vertex, status, tasks, attempts, start_time_ms: start, end_time_ms: ENDS.has(status) ? end : -1, progress: [], io, io_lacking: lacking };
}

export function jobAt(job, data, at) {
  const rows = Map.groupBy(data.attempts, (row) => data.vertices[row[ROW.vertex]]);
  const vertices = job.vertices.map((vertex) => vertexAt(vertex, rows.get(vertex.id) ?? [], at));
  const [status] = Object.entries(job.timestamps_ms).filter(([, ms]) => ms > 0 && ms <= at).sort((a, b) => a[1] - b[1]).at(-1) ?? ["CREATED"];
  const hasBegun = vertices.some((vertex) => vertex.start_time_ms >= 0);
  return { ...job, vertices, status: hasBegun && BEFORE.has(status) ? "RUNNING" : status, exceptions: job.exceptions.filter((entry) => entry.timestamp_ms <= at) };
}
