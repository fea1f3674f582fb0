// Lines of a file on a worker or master, going on with what comes.
import { ApiError, get, parts, text } from "./api.js";
import { bytes } from "./format.js";
import { Problem } from "./parts.js";
import { html, useEffect, useLayoutEffect, useRef, useState } from "./ui.js";

const TAIL_BYTES = 64 * 1024; // what is shown at first, from the end on
const SHOWN_CHARS = 512 * 1024; // what is older goes
const PAUSE_MS = 2_000;
const WAIT_MS = 20_000; // an answer comes when there is more, or after so long

// Follows by asking for the next part, which the worker answers when there is one.
export function FollowedLog({ path, label }) {
  const [log, setLog] = useState({ text: "", size: null, from: 0, error: null });
  const [follows, setFollows] = useState(true);
  const place = useRef({ path: "", next: -TAIL_BYTES });
  useEffect(() => {
    if (place.current.path !== path) {
      place.current = { path, next: -TAIL_BYTES };
      setLog({ text: "", size: null, from: 0, error: null });
    }
    const control = new AbortController();
    read(path, place.current, follows, control.signal, setLog);
    return () => control.abort();
  }, [path, follows]);
  return html`<div class="logbar"><label><input type="checkbox" checked=${follows} onChange=${() => setFollows(!follows)} /> Follow</label>
      <span>${log.size !== null && (log.from > 0 ? `the last part of ${bytes(log.size)}` : bytes(log.size))}</span></div>
    ${log.error && html`<${Problem} error=${log.error} />`}
    <${Lines} text=${log.text} label=${label} follows=${follows} empty=${log.size !== null} />`;
}

async function read(path, place, follows, signal, setLog) {
  let first = place.next < 0;
  while (!signal.aborted && (first || follows)) {
    try {
      const part = await get(`${path}/part?offset=${place.next}&wait=${first ? 0 : WAIT_MS}`, signal);
      place.next = part["next-offset"];
      const begins = first;
      setLog((log) => ({ text: (log.text + part.text).slice(-SHOWN_CHARS), size: part.size, from: begins ? part.offset : log.from, error: null }));
      first = false;
    } catch (error) {
      if (signal.aborted) return;
      setLog((log) => ({ ...log, error }));
      if (error instanceof ApiError && [403, 404].includes(error.status)) return;
      await new Promise((done) => setTimeout(done, PAUSE_MS));
    }
  }
}

// What a script prints, from its first byte on: the answers are parts of it. `isOver` says that nothing more will come.
export function GrowingText({ path, label, isOver }) {
  const [log, setLog] = useState({ text: "", size: 0, isRead: false, error: null });
  const over = useRef(isOver);
  over.current = isOver;
  useEffect(() => {
    const control = new AbortController();
    setLog({ text: "", size: 0, isRead: false, error: null });
    grow(path, over, control.signal, setLog);
    return () => control.abort();
  }, [path]);
  return html`${log.size > 0 && html`<div class="logbar"><span>${log.text.length === SHOWN_CHARS ? `the last part of ${bytes(log.size)}` : bytes(log.size)}</span></div>`}
    ${log.error && html`<${Problem} error=${log.error} />`}
    <${Lines} text=${log.text} label=${label} follows=${true} empty=${log.isRead} />`;
}

async function grow(path, over, signal, setLog) {
  const decoder = new TextDecoder();
  let offset = 0;
  let first = true;
  while (!signal.aborted) {
    const isLast = over.current;
    try {
      const found = await parts(`${path}&offset=${offset}&wait=${isLast || first ? 0 : WAIT_MS}`, signal);
      const more = found.map((part) => decoder.decode(part, { stream: true })).join("");
      const size = found.reduce((sum, part) => sum + part.length, 0);
      offset += size;
      first = false;
      setLog((log) => ({ text: (log.text + more).slice(-SHOWN_CHARS), size: offset, isRead: true, error: null }));
      if (size === 0 && isLast) return;
    } catch (error) {
      if (signal.aborted) return;
      setLog((log) => ({ ...log, error }));
      if (error instanceof ApiError && [403, 404].includes(error.status)) return;
      await new Promise((done) => setTimeout(done, PAUSE_MS));
    }
  }
}

// A file as it is now.
export function WholeText({ path, label }) {
  const [shown, setShown] = useState({ text: "", error: null, done: false });
  useEffect(() => {
    const control = new AbortController();
    setShown({ text: "", error: null, done: false });
    text(path, control.signal).then(
      (found) => setShown({ text: found.slice(-SHOWN_CHARS), error: null, done: true }),
      (error) => control.signal.aborted || setShown({ text: "", error, done: true }),
    );
    return () => control.abort();
  }, [path]);
  return html`${shown.error && html`<${Problem} error=${shown.error} />`}<${Lines} text=${shown.text} label=${label} follows=${true} empty=${shown.done && !shown.error} />`;
}

function Lines({ text, label, follows, empty }) {
  const box = useRef(null);
  const stays = useRef(true);
  useLayoutEffect(() => {
    if (follows && stays.current && box.current) box.current.scrollTop = box.current.scrollHeight;
  }, [text, follows]);
  const scrolled = ({ target }) => (stays.current = target.scrollTop + target.clientHeight > target.scrollHeight - 40);
  return html`<pre class="log" tabindex="0" role="log" aria-live="off" aria-label=${label} ref=${box} onScroll=${scrolled}>${text || (empty ? "Nothing is in it." : "")}</pre>`;
}
