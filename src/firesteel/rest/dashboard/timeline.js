// Attempts as bars over time, the vertices in the order of the graph.
import { url } from "./api.js";
import { ROW } from "./attempts.js";
import { EventList, Marks } from "./events.js";
import { duration, plural, time } from "./format.js";
import { Graph } from "./graph.js";
import { ofJob } from "./ofjob.js";
import { useClock, useView } from "./live.js";
import { jobAt } from "./moments.js";
import { Awaited, Nothing, Panel, State } from "./parts.js";
import { Cell, Rows } from "./rows.js";
import { groupOf, hasEnded } from "./states.js";
import { html, useMemo, useState } from "./ui.js";

const TICKS = 4;
const STEPS = 1_000; // of the slider

export function Timeline({ job }) {
  const view = useView(url`/jobs/${job.job_id}/attempts`, ofJob(job.job_id));
  const journal = useView(url`/jobs/${job.job_id}/journal`, ofJob(job.job_id));
  return html`<${Panel} title="Attempts over time" aside=${view.data && plural(view.data.attempts.length, "attempt")}>
      <${Awaited} view=${view}>${(data) => html`<${Bars} job=${job} data=${data} />`}<//>
    <//>
    ${view.data && html`<${Moments} job=${job} data=${view.data} journal=${journal.data} />`}`;
}

// The job as it was: a slider over its time, and its graph then.
function Moments({ job, data, journal }) {
  const [step, setStep] = useState(STEPS);
  const begun = data.attempts.filter((row) => row[ROW.deployed] >= 0);
  const now = useClock(!hasEnded(job.status));
  const from = job.start_time_ms;
  const to = Math.max(from + 1, hasEnded(job.status) ? Math.max(job.end_time_ms, ...job.exceptions.map((each) => each.timestamp_ms)) : now);
  const at = Math.round(from + ((to - from) * step) / STEPS);
  const then = useMemo(() => jobAt(job, data, at), [job, data, at]);
  if (!begun.length || from < 0) return null;
  const words = `${duration(at - from)} after its start, at ${time(at)}`;
  return html`<${Panel} title="As it was" aside=${html`<${State} state=${then.status} />`}>
      ${journal && html`<${Marks} events=${journal.events} from=${from} to=${to} />`}
      <label class="moment"><span>${words}</span><input type="range" min="0" max=${STEPS} step="1" value=${step} aria-valuetext=${words} onInput=${(event) => setStep(Number(event.target.value))} /></label>
    <//>
    ${journal && html`<${EventList} info=${journal} go=${(ms) => setStep(Math.min(STEPS, Math.max(0, Math.ceil((STEPS * (ms - from)) / (to - from)))))} />`}
    <${Graph} job=${then} />`;
}

function Bars({ job, data }) {
  const begun = useMemo(() => data.attempts.filter((row) => row[ROW.deployed] >= 0), [data]);
  const runs = !hasEnded(job.status);
  const now = useClock(runs);
  if (!begun.length) return html`<${Nothing}>${runs ? "No attempt has been deployed yet." : "No attempt was deployed, or none is kept."}<//>`;
  const from = begun.reduce((least, row) => Math.min(least, row[ROW.deployed]), Infinity);
  const last = begun.reduce((most, row) => Math.max(most, row[ROW.ended], row[ROW.running], row[ROW.deployed]), 0);
  const to = Math.max(from + 1, runs ? Math.max(now, last) : job.end_time_ms > 0 ? Math.max(job.end_time_ms, last) : last);
  const at = (ms) => (100 * (ms - from)) / (to - from);
  const names = Object.fromEntries(job.vertices.map((vertex) => [vertex.id, vertex]));
  const ticks = Array.from({ length: TICKS + 1 }, (_, index) => (index * (to - from)) / TICKS);
  const axis = html`<span class="axis">${ticks.map((ms, index) => html`<span style=${{ left: `${(100 * index) / TICKS}%` }}>${index ? duration(ms) : time(from)}</span>`)}</span>`;
  return html`${data.truncated && html`<p class="stale">Not all attempts are kept: these are the first.</p>`}
    <${Rows} kind="bars" label="Attempts" columns=${[["Attempt", "n"], [axis, "bar-cell"], ["Lasted", "d"]]} rows=${begun} rowHeight=${30} narrowHeight=${48} lines=${20}
      keyOf=${(row) => `${row[0]}-${row[1]}-${row[2]}`} row=${(row) => html`<${Bar} job=${job} vertex=${names[data.vertices[row[ROW.vertex]]]} row=${row} at=${at} to=${to} />`} />`;
}

function Bar({ job, vertex, row, at, to }) {
  const [, subtask, attempt, state, worker, deployed, running, ended] = row;
  const end = ended >= 0 ? ended : to;
  const begun = running >= 0 ? running : end;
  const words = `${state.toLowerCase()}, ${duration(end - deployed)} from ${time(deployed)}${worker ? ` on ${worker}` : ""}`;
  return html`<${Cell} style="n"><a href=${`#/jobs/${job.job_id}/vertices/${vertex.id}/${subtask}`} title=${vertex.name}>${vertex.name}</a> <small>${subtask + 1}/${vertex.parallelism}${attempt > 0 ? ` #${attempt}` : ""}</small><//>
    <${Cell} style="bar-cell"><span class="lane" role="img" aria-label=${words} title=${words}>
      <span class="deploying" style=${{ left: `${at(deployed)}%`, width: `${Math.max(0, at(begun) - at(deployed))}%` }}></span>
      <span class=${groupOf(state)} style=${{ left: `${at(begun)}%`, width: `max(3px, ${Math.max(0, at(end) - at(begun))}%)` }}></span>
    </span><//>
    <${Cell} style="d">${duration(end - deployed)}<//>`;
}
