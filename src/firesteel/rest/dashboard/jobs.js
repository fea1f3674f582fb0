// Every job's line: read once, then kept as the events say.
import { get } from "./api.js";
import { RETRY_VIEW_MS, isUnanswered, listen, ready } from "./live.js";
import { GROUPS, groupOfJob } from "./states.js";
import { useEffect, useReducer } from "./ui.js";

const SHOW_MS = 250; // what changes faster is shown together

const store = { lines: new Map(), order: [], counts: {}, error: null, isRead: false, users: new Set(), timer: 0, reading: null };

// The answer may be older than an event that comes before it does: those are put on top of it. Of several reads the last counts.
async function read() {
  const mine = (store.reading = { events: [] });
  try {
    await ready();
    const { jobs } = await get("/jobs/overview");
    if (store.reading !== mine) return;
    store.lines = new Map(jobs.map((line) => [line.jid, line]));
    mine.events.forEach(put);
    store.error = null;
    store.isRead = true;
  } catch (error) {
    if (store.reading !== mine) return;
    store.error = error;
    if (isUnanswered(error)) setTimeout(() => store.error === error && read(), RETRY_VIEW_MS);
  }
  store.reading = null;
  show();
}

function put({ kind, data }) {
  if (kind === "job") store.lines.set(data.jid, data);
  else store.lines.delete(data.jid);
}

function show() {
  clearTimeout(store.timer);
  store.timer = 0;
  store.order = [...store.lines.values()].sort((a, b) => b["start-time"] - a["start-time"]);
  store.counts = Object.fromEntries(GROUPS.map((group) => [group, 0]));
  for (const line of store.order) store.counts[groupOfJob(line)] += 1;
  for (const again of store.users) again();
}

listen((events) => {
  if (!store.isRead && !store.reading) return;
  const resync = events.findLastIndex(({ kind }) => kind === "resync");
  if (resync >= 0) read();
  const changes = events.slice(resync + 1).filter(({ kind }) => kind === "job" || kind === "job-gone");
  if (!changes.length) return;
  changes.forEach(put);
  store.reading?.events.push(...changes);
  if (store.isRead && !store.timer) store.timer = setTimeout(show, SHOW_MS);
});

export function useJobs() {
  const [, again] = useReducer((n) => n + 1, 0);
  useEffect(() => {
    store.users.add(again);
    if (!store.isRead && !store.reading) read();
    return () => store.users.delete(again);
  }, []);
  return { ...store, reload: read };
}

export function forget() {
  store.isRead = false;
  store.reading = null;
  store.lines = new Map();
  store.order = [];
}

export function nameOf(jid) {
  return store.lines.get(jid)?.name;
}
