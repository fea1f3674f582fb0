// A vertex: its subtasks; and one subtask with its attempts and what they have printed.
import { url } from "./api.js";
import { Flames } from "./flames.js";
import { bytes, count, duration, known, plural } from "./format.js";
import { ofJob } from "./ofjob.js";
import { useView } from "./live.js";
import { AttemptLogs } from "./output.js";
import { Awaited, Facts, Figure, Lasting, Nothing, Panel, Sign, State, TaskBar, Time } from "./parts.js";
import { Cell, Rows } from "./rows.js";
import { GROUP_NAMES, GROUPS, executionState, groupOf, hasEnded } from "./states.js";
import { ROW } from "./attempts.js";
import { figuresOf } from "./vertices.js";
import { SparkWork } from "./sparkwork.js";
import { useMay } from "./user.js";
import { html, useMemo, useState } from "./ui.js";

export function VertexPage({ job, vertex, subtask }) {
  const view = useView(url`/jobs/${job.job_id}/attempts?vertex=${vertex.id}`, ofJob(job.job_id));
  const figures = figuresOf(job, vertex);
  const state = executionState(vertex.status);
  const up = `#/jobs/${job.job_id}/vertices/${vertex.id}`;
  return html`<section class="vertex" aria-label=${`Vertex ${vertex.name}`}>
    <div class="title"><h2>${subtask === undefined ? vertex.name : html`<a href=${up}>${vertex.name}</a> subtask ${Number(subtask) + 1} of ${vertex.parallelism}`}</h2>${subtask === undefined && html`<${State} state=${state} />`}</div>
    ${subtask === undefined && html`<${Facts} facts=${[
      ["Functions", vertex.functions.join(" → ")],
      ["Kind", vertex.kinds.join(" → ")],
      ["Parallelism", vertex.max_parallelism > vertex.parallelism ? `${count(vertex.parallelism)} of at most ${count(vertex.max_parallelism)}` : count(vertex.parallelism)],
      ["Runs on", vertex.labels?.length ? vertex.labels.join(", ") : null],
      ["Duration", html`<${Lasting} start=${vertex.start_time_ms} end=${vertex.end_time_ms} state=${state} />`],
      ["Rows in", figures.rowsRead], ["Bytes in", figures.bytesRead], ["Rows out", figures.rowsWritten], ["Bytes out", figures.bytesWritten],
      [figures.isOfRegion ? "Spark tasks of the region" : "Spark tasks", figures.sparkTasks],
      [figures.isOfRegion ? "Time in Spark of the region" : "Time in Spark", figures.sparkTime], ["Peak memory", figures.memoryPeak],
    ]} />`}
    ${!hasEnded(job.status) && html`<${Flames} key=${`${vertex.id} ${subtask}`} job=${job} vertex=${vertex} subtask=${subtask} />`}
    <${Awaited} view=${view}>${(data) => (subtask === undefined ? html`<${Subtasks} job=${job} vertex=${vertex} data=${data} />` : html`<${Subtask} job=${job} vertex=${vertex} data=${data} index=${Number(subtask)} />`)}<//>
  </section>`;
}

// ── subtasks ────────────────────────────────────────────────────────────────────────────────────
function Subtasks({ job, vertex, data }) {
  const [group, setGroup] = useState("");
  const current = useMemo(() => [...new Map(data.attempts.map((row) => [row[ROW.subtask], row])).values()], [data]); // the last of each
  const counts = useMemo(() => Map.groupBy(current, (row) => groupOf(row[ROW.state])), [current]);
  const rows = group ? (counts.get(group) ?? []) : current;
  if (!current.length) return html`<${Nothing}>Its subtasks are not known${job.end_time_ms > 0 ? " any more" : " yet"}.<//>`;
  const columns = [["Subtask", "k"], ["State", "s"], ["Worker", "w"], ["Started", "b"], ["Duration", "d"], ["Rows in", "x"], ["Bytes in", "x"], ["Rows out", "x"], ["Bytes out", "x"]];
  return html`<${Panel} title="Subtasks" aside=${html`<${TaskBar} tasks=${vertex.tasks} />`}>
    ${counts.size > 1 && html`<div class="filters" role="group" aria-label="Subtasks by state">${GROUPS.filter((each) => counts.has(each)).map((each) => html`<button class="filter ${each}" aria-pressed=${String(group === each)} onClick=${() => setGroup(group === each ? "" : each)}><${Sign} group=${each} />${GROUP_NAMES[each]} <span class="number">${count(counts.get(each).length)}</span></button>`)}</div>`}
    ${data.truncated && html`<p class="stale">Not all subtasks are kept.</p>`}
    <${Rows} kind="subtasks" label="Subtasks" columns=${columns} rows=${rows} rowHeight=${38} narrowHeight=${66} lines=${16} keyOf=${(row) => row[ROW.subtask]} row=${(row) => html`<${SubtaskRow} job=${job} vertex=${vertex} row=${row} />`} />
  <//>
  ${vertex.parallelism === 1 && html`<${Spark} job=${job} vertex=${vertex} row=${current[0]} />`}`;
}

// Of the last attempt of a subtask; plans say what data there is.
function Spark({ job, vertex, row }) {
  const may = useMay();
  return row[ROW.deployed] >= 0 && may.read(job) && html`<${SparkWork} job=${job} vertex=${vertex} subtask=${row[ROW.subtask]} attempt=${row[ROW.attempt]} />`;
}

function SubtaskRow({ job, vertex, row }) {
  const [, subtask, attempt, state, worker, deployed, , ended] = row;
  const figure = (value) => html`<${Cell} style="x"><${Figure} value=${value} /><//>`;
  return html`<${Cell} style="k"><a href=${`#/jobs/${job.job_id}/vertices/${vertex.id}/${subtask}`}>${subtask + 1}</a>${attempt > 0 && html` <small>attempt ${attempt}</small>`}<//>
    <${Cell} style="s"><${State} state=${state} /><//>
    <${Cell} style="w">${worker ? html`<a href=${`#/workers/${encodeURIComponent(worker)}`}>${worker}</a>` : html`<${Figure} />`}<//>
    <${Cell} style="b"><${Time} ms=${deployed} /><//>
    <${Cell} style="d"><${Lasting} start=${deployed} end=${ended} state=${state} /><//>
    ${figure(count(row[ROW.rowsRead]))}${figure(bytes(row[ROW.bytesRead]))}${figure(count(row[ROW.rowsWritten]))}${figure(bytes(row[ROW.bytesWritten]))}`;
}

// ── one subtask ─────────────────────────────────────────────────────────────────────────────────
function Subtask({ job, vertex, data, index }) {
  const may = useMay();
  const attempts = data.attempts.filter((row) => row[ROW.subtask] === index);
  if (!attempts.length) return html`<${Nothing}>This subtask is not known.<//>`;
  const region = vertex.first_region + index;
  return html`<${Panel} title="Attempts" aside=${plural(attempts.length, "attempt")}>
      <div class="scroll" tabindex="0" role="region" aria-label="Attempts"><table>
        <thead><tr><th scope="col">Attempt</th><th scope="col">State</th><th scope="col">Worker</th><th scope="col">Deployed</th><th scope="col">Until it ran</th><th scope="col">Ran</th><th scope="col">In Spark</th><th scope="col">Peak memory</th></tr></thead>
        <tbody>${attempts.toReversed().map((row) => html`<${AttemptRow} row=${row} />`)}</tbody>
      </table></div>
    <//>
    <${Spark} job=${job} vertex=${vertex} row=${attempts.at(-1)} />
    <${Panel} title="Printed output">${may.read(job) ? html`<${AttemptLogs} job=${job} belongs=${(log) => log.region === region} />` : html`<${Nothing}>It is for ${job.owner}, who submitted the job.<//>`}<//>`;
}

function AttemptRow({ row }) {
  const [, , attempt, state, worker, deployed, running, ended] = row;
  return html`<tr>
    <th scope="row">${attempt}</th><td><${State} state=${state} /></td><td>${worker ? html`<a href=${`#/workers/${encodeURIComponent(worker)}`}>${worker}</a>` : html`<${Figure} />`}</td>
    <td><${Time} ms=${deployed} /></td><td><${Figure} value=${known(running) === null || known(deployed) === null ? null : duration(running - deployed)} /></td><td><${Lasting} start=${running} end=${ended} state=${state} /></td>
    <td><${Figure} value=${duration(row[ROW.sparkTime])} /></td><td><${Figure} value=${bytes(row[ROW.memoryPeak])} /></td></tr>`;
}
