// What keeps the page as the cluster is: one stream of events for all of it, and views that are read again when one says so.
import { ApiError, follow, get } from "./api.js";
import { useCallback, useEffect, useReducer, useRef, useState } from "./ui.js";

const RETRY_MS = 1_000;
const RETRY_MAX_MS = 15_000;
const HIDDEN_MS = 5_000; // a page that nobody sees gives its connection back after so long
const REREAD_MS = 1_000; // least time between two reads of one view
export const RETRY_VIEW_MS = 10_000; // time until a view is asked for again that no master has answered

const listeners = new Set();
const stream = { state: "connecting", lastId: "", leader: null, skew: 0, stop: null };
let begun = later(); // views are read once the stream has begun, so that no change falls between them

function later() {
  let resolve;
  const promise = new Promise((done) => (resolve = done));
  const made = { promise, isOver: false, resolve: () => ((made.isOver = true), resolve()) };
  return made;
}

export const ready = () => begun.promise;

export function now() {
  return Date.now() + stream.skew;
}

function announce(events) {
  for (const listener of [...listeners]) listener(events);
}

function become(state) {
  if (stream.state === state) return;
  stream.state = state;
  announce([{ kind: "state" }]);
}

function take(events) {
  for (const event of events) {
    if (event.id) stream.lastId = event.id;
    if (event.kind === "leader") {
      stream.leader = event.data;
      stream.skew = event.data.now - Date.now();
      become("live");
      begun.resolve();
    }
  }
  announce(events);
}

async function keepFollowing(signal) {
  let wait = RETRY_MS;
  let missed = false;
  while (!signal.aborted) {
    try {
      await follow(stream.lastId, signal, (events) => {
        wait = RETRY_MS;
        take(missed ? [...events, { kind: "resync" }] : events);
        missed = false;
      });
    } catch (error) {
      begun.resolve();
      if (signal.aborted) return;
      if (error instanceof ApiError && [404, 405].includes(error.status)) return become("still"); // an archive: nothing changes there
      if (error instanceof ApiError && error.status === 401) return become("refused");
      missed ||= stream.lastId === "";
    }
    if (signal.aborted) return;
    become("away");
    await new Promise((done) => setTimeout(done, wait * (0.5 + Math.random())));
    wait = Math.min(2 * wait, RETRY_MAX_MS);
  }
}

export function start() {
  stop();
  if (stream.lastId === "" && begun.isOver) begun = later();
  const control = new AbortController();
  stream.stop = () => control.abort();
  if (stream.state !== "live") become("connecting");
  keepFollowing(control.signal);
}

function stop() {
  stream.stop?.();
  stream.stop = null;
}

// Browsers open few connections to one host, and hidden pages would hold them.
let hiding;
document.addEventListener("visibilitychange", () => {
  clearTimeout(hiding);
  if (document.hidden) hiding = setTimeout(stop, HIDDEN_MS);
  else if (stream.stop === null && stream.state !== "still") start();
});

export function listen(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

// ── for components ──────────────────────────────────────────────────────────────────────────────
export function useEvents(act) {
  const last = useRef(act);
  last.current = act;
  useEffect(() => listen((events) => last.current(events)), []);
}

export function useStream() {
  const [, again] = useReducer((n) => n + 1, 0);
  useEvents((events) => events.some((event) => event.kind === "state" || event.kind === "leader") && again());
  return stream;
}

const same = (data) => data;
export const isUnanswered = (error) => error instanceof ApiError && [0, 503].includes(error.status);

// A view and its error; read again, not too often, when `concerns` says that an event is about it. `fold` makes of a view and an
// event the view after it: also of events that came while it was read, since the answer may be older than they are.
export function useView(path, concerns = () => false, fold = same) {
  const [view, setView] = useState({ path: null, data: null, error: null });
  const work = useRef(null);
  const read = useCallback(async () => {
    const mine = work.current;
    if (mine === null) return;
    if (mine.busy) return void (mine.again = true);
    mine.busy = true;
    mine.events = [];
    clearTimeout(mine.retry);
    try {
      await begun.promise;
      const data = path === null ? null : await get(path, mine.control.signal);
      if (!mine.control.signal.aborted) setView({ path, data: mine.events.reduce(fold, data), error: null });
    } catch (error) {
      if (mine.control.signal.aborted) return;
      setView((before) => ({ path, data: before.path === path ? before.data : null, error }));
      if (isUnanswered(error)) mine.retry = setTimeout(read, RETRY_VIEW_MS);
    } finally {
      mine.events = null;
      mine.timer = setTimeout(() => {
        mine.busy = false;
        if (mine.again && !mine.control.signal.aborted) {
          mine.again = false;
          read();
        }
      }, REREAD_MS);
    }
  }, [path]);
  useEffect(() => {
    work.current = { control: new AbortController(), busy: false, again: false, timer: 0, retry: 0, events: null };
    read();
    return () => {
      work.current.control.abort();
      clearTimeout(work.current.timer);
      clearTimeout(work.current.retry);
      work.current = null;
    };
  }, [read]);
  useEvents((events) => {
    if (path === null) return;
    if (events.some((event) => event.kind === "resync" || concerns(event))) read();
    if (fold === same) return;
    work.current?.events?.push(...events);
    setView((before) => {
      const data = before.path === path && before.data ? events.reduce(fold, before.data) : before.data;
      return data === before.data ? before : { ...before, data };
    });
  });
  const current = view.path === path ? view : { data: null, error: null };
  return { ...current, reload: read };
}

export function useClock(runs, everyMs = 1_000) {
  const [, again] = useReducer((n) => n + 1, 0);
  useEffect(() => {
    if (!runs) return;
    const timer = setInterval(() => document.hidden || again(), everyMs);
    return () => clearInterval(timer);
  }, [runs, everyMs]);
  return now();
}
