// The one place that speaks with the master, by REST alone: whoever answers the same requests can be behind this page.

const BASE = "v1";
const TOKEN = "firesteel.token";
const SILENT_S = 60; // nothing has come of an answer for so long: nobody is there
const SILENT_STREAM_S = 40; // the stream of events has a sign of life every 15 s

export class ApiError extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

let onRefused = () => {};

export function whenRefused(act) {
  onRefused = act;
}

// A path with its parts escaped, so that none is more than a part of it: url`/jobs/${id}/view`.
export function url(words, ...parts) {
  return String.raw({ raw: words }, ...parts.map(encodeURIComponent));
}

// Of a job that is submitted: the same one, however often it is sent. Plain HTTP has no crypto.randomUUID.
export const freshId = () => Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");

export const token = {
  get: () => sessionStorage.getItem(TOKEN) ?? "",
  set: (text) => (text ? sessionStorage.setItem(TOKEN, text) : sessionStorage.removeItem(TOKEN)),
};

function headers(more = {}) {
  return token.get() ? { ...more, Authorization: `Bearer ${token.get()}` } : more;
}

// Breaks off what is silent for so long; `heard` says that it is not.
function watchdog(signal, seconds) {
  const control = new AbortController();
  let timer = 0;
  const heard = () => {
    clearTimeout(timer);
    if (Number.isFinite(seconds)) timer = setTimeout(() => control.abort(new DOMException("silent", "TimeoutError")), seconds * 1_000);
  };
  heard();
  return { signal: signal ? AbortSignal.any([signal, control.signal]) : control.signal, heard, end: () => clearTimeout(timer) };
}

// What comes of a request, part by part; raises ApiError, or AbortError when `signal` says that nobody wants it any more.
async function request(path, { signal, silentS = SILENT_S, ...options }, onPart) {
  const guard = watchdog(signal, silentS);
  try {
    const response = await fetch(`${BASE}${path}`, { ...options, headers: headers(options.headers), signal: guard.signal });
    guard.heard();
    if (!response.ok) await refuse(response);
    const reader = response.body.getReader();
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      guard.heard();
      onPart(value);
    }
  } catch (error) {
    if (error instanceof ApiError || signal?.aborted) throw error;
    throw new ApiError(0, error.name === "TimeoutError" ? `The master has not answered for ${silentS} s.` : "No master answers at this address.");
  } finally {
    guard.end();
  }
}

async function refuse(response) {
  const message = await said(response);
  if (response.status === 401) onRefused(message);
  throw new ApiError(response.status, message);
}

async function said(response) {
  try {
    return (await response.json()).errors.join("\n");
  } catch {
    return `The master answers ${response.status}.`;
  }
}

async function answer(path, options = {}) {
  const decoder = new TextDecoder();
  let found = "";
  await request(path, options, (part) => (found += decoder.decode(part, { stream: true })));
  return found + decoder.decode();
}

export async function get(path, signal) {
  return JSON.parse(await answer(path, { signal }));
}

export async function text(path, signal) {
  return answer(path, { signal });
}

// What is told in bytes, which are counted: a part may end within a letter. A list of parts.
export async function parts(path, signal) {
  const found = [];
  await request(path, { signal }, (part) => found.push(part));
  return found;
}

// `silentS` is for what takes its time.
export async function send(method, path, body, { silentS = SILENT_S, signal } = {}) {
  const content = body === undefined ? {} : { body: JSON.stringify(body), headers: { "Content-Type": "application/json" } };
  return JSON.parse(await answer(path, { method, silentS, signal, ...content }));
}

export async function upload(file) {
  const form = new FormData();
  form.append("jarfile", file, file.name);
  return JSON.parse(await answer("/jars/upload", { method: "POST", body: form, silentS: Infinity }));
}

// ── the stream of events ────────────────────────────────────────────────────────────────────────
// Read with fetch, since an EventSource can't say who asks. Calls back with each event; ends when the stream does.
export async function follow(lastId, signal, onEvent) {
  const asked = { Accept: "text/event-stream", ...(lastId ? { "Last-Event-ID": lastId } : {}) };
  const decoder = new TextDecoder();
  let rest = "";
  await request("/events", { headers: asked, signal, silentS: SILENT_STREAM_S }, (part) => {
    const blocks = (rest + decoder.decode(part, { stream: true })).split("\n\n");
    rest = blocks.pop();
    onEvent(blocks.map(parsed).filter((event) => event.kind));
  });
}

function parsed(block) {
  const event = { id: "", kind: "", data: null };
  for (const line of block.split("\n")) {
    if (line.startsWith("id: ")) event.id = line.slice(4);
    else if (line.startsWith("event: ")) event.kind = line.slice(7);
    else if (line.startsWith("data: ")) event.data = JSON.parse(line.slice(6));
  }
  return event;
}
