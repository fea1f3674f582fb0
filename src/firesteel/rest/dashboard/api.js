// The one place that speaks with the master, by REST alone: whoever answers the same requests can be behind this page.

const BASE = "v1";
const TOKEN = "firesteel.token";
const WAIT_S = 60;

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

export const token = {
  get: () => sessionStorage.getItem(TOKEN) ?? "",
  set: (text) => (text ? sessionStorage.setItem(TOKEN, text) : sessionStorage.removeItem(TOKEN)),
};

function headers(more = {}) {
  return token.get() ? { ...more, Authorization: `Bearer ${token.get()}` } : more;
}

async function answer(path, options = {}) {
  let response;
  try {
    response = await fetch(`${BASE}${path}`, { ...options, headers: headers(options.headers), signal: options.signal ?? AbortSignal.timeout(WAIT_S * 1_000) });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(0, "No master answers at this address.");
  }
  if (response.ok) return response;
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

export async function get(path, signal) {
  return (await answer(path, { signal })).json();
}

export async function text(path, signal) {
  return (await answer(path, { signal })).text();
}

export async function send(method, path, body) {
  const options = body === undefined ? { method } : { method, body: JSON.stringify(body), headers: { "Content-Type": "application/json" } };
  return (await answer(path, options)).json();
}

export async function upload(file) {
  const form = new FormData();
  form.append("jarfile", file, file.name);
  return (await answer("/jars/upload", { method: "POST", body: form, signal: new AbortController().signal })).json();
}

// ── the stream of events ────────────────────────────────────────────────────────────────────────
// Read with fetch, since an EventSource can't say who asks. Calls back with each event; ends when the stream does.
export async function follow(lastId, signal, onEvent) {
  const asked = headers({ Accept: "text/event-stream", ...(lastId ? { "Last-Event-ID": lastId } : {}) });
  const response = await fetch(`${BASE}/events`, { headers: asked, signal });
  if (!response.ok) {
    const message = await said(response);
    if (response.status === 401) onRefused(message);
    throw new ApiError(response.status, message);
  }
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const blocks = (rest + value).split("\n\n");
    rest = blocks.pop();
    onEvent(blocks.map(parsed).filter((event) => event.kind));
  }
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
