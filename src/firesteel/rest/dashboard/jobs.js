// Every job's line: read once, then kept as the events say.
import { get } from "./api.js";
import { listen, ready } from "./live.js";
import { GROUPS, groupOfJob } from "./states.js";
import { useEffect, useReducer } from "./ui.js";

const SHOW_MS = 250; // what changes faster is shown together

const store = { lines: new Map(), order: [], counts: {}, error: null, isRead: false, users: new Set(), timer: 0, isSorted: true };

async function read() {
  try {
    await ready();
    const { jobs } = await get("/jobs/overview");
    store.lines = new Map(jobs.map((line) => [line.jid, line]));
    store.order = jobs;
    store.error = null;
    store.isRead = true;
  } catch (error) {
    store.error = error;
  }
  show();
}

function show() {
  store.timer = 0;
  store.order = [...store.lines.values()].sort((a, b) => b["start-time"] - a["start-time"]);
  store.counts = Object.fromEntries(GROUPS.map((group) => [group, 0]));
  for (const line of store.order) store.counts[groupOfJob(line)] += 1;
  for (const again of store.users) again();
}

listen((events) => {
  if (!store.isRead) return;
  let changed = false;
  for (const { kind, data } of events) {
    if (kind === "resync") return void read();
    if (kind === "job") store.lines.set(data.jid, data);
    else if (kind === "job-gone") store.lines.delete(data.jid);
    else continue;
    changed = true;
  }
  if (changed && !store.timer) store.timer = setTimeout(show, SHOW_MS);
});

export function useJobs() {
  const [, again] = useReducer((n) => n + 1, 0);
  useEffect(() => {
    store.users.add(again);
    if (!store.isRead) read();
    return () => store.users.delete(again);
  }, []);
  return { ...store, reload: read };
}

export function forget() {
  store.isRead = false;
  store.lines = new Map();
  store.order = [];
}

export function nameOf(jid) {
  return store.lines.get(jid)?.name;
}
