// A job: its head with what may be done with it, and a tab for each thing one looks for.
import { freshId, get, send, url } from "./api.js";
import { count, duration, plural } from "./format.js";
import { Graph } from "./graph.js";
import { Lineage } from "./lineage.js";
import { useStream, useView } from "./live.js";
import { ofJob } from "./ofjob.js";
import { JobOutput } from "./output.js";
import { Awaited, Confirm, Copy, Facts, Figure, Lasting, Nothing, Pairs, Panel, Problem, State, Tabs, TaskBar, Time } from "./parts.js";
import { Checkpoints } from "./checkpoints.js";
import { Failures, lastFailure } from "./failures.js";
import { JobResults } from "./results.js";
import { SparkPages } from "./spark.js";
import { executionState, groupOfJob, hasEnded } from "./states.js";
import { Timeline } from "./timeline.js";
import { figuresOf } from "./vertices.js";
import { VertexPage } from "./vertex.js";
import { useMay } from "./user.js";
import { html, useEffect, useMemo, useState } from "./ui.js";

const JOB_ID = /^[0-9a-f]{32}$/;
const SAVEPOINT_LOOK_MS = 1_000;
const SAVEPOINT_LOOKS_MAX = 1_800;

export function JobPage({ parts }) {
  const [jid, tab = "", vertex, subtask] = parts;
  const isId = JOB_ID.test(jid);
  const view = useView(isId ? url`/jobs/${jid}/view` : null, ofJob(jid));
  if (!isId) return html`<${Problem} error=${new Error("That is no id of a job: it has 32 hex digits.")} />`;
  return html`<${Awaited} view=${view}>${(job) => html`<${Job} job=${job} tab=${tab} vertex=${vertex} subtask=${subtask} reload=${view.reload} />`}<//>`;
}

function Job({ job, tab, vertex, subtask, reload }) {
  useEffect(() => {
    document.title = `${job.name} · firesteel`;
    return () => (document.title = "firesteel");
  }, [job.name]);
  const base = `#/jobs/${job.job_id}`;
  const failures = job.exceptions.length;
  const tabs = [
    ["", "Graph", base],
    ["timeline", "Timeline", `${base}/timeline`],
    ["exceptions", failures ? html`Exceptions <span class="number">${count(failures)}</span>` : "Exceptions", `${base}/exceptions`],
    ["output", "Output", `${base}/output`],
    job.job_type === "streaming" && ["checkpoints", "Checkpoints", `${base}/checkpoints`],
    ["results", "Results", `${base}/results`],
    ["lineage", "Lineage", `${base}/lineage`],
    ["configuration", "Configuration", `${base}/configuration`],
  ];
  const chosen = job.vertices.find((each) => each.id === vertex);
  const isKnown = tab === "vertices" || tabs.some((each) => each && each[0] === tab);
  return html`<${Head} job=${job} reload=${reload} />
    <${Tabs} label="The job" tabs=${tabs} current=${tab === "vertices" ? "" : tab} />
    ${!isKnown && html`<${Nothing}>There is no such page.<//>`}
    ${tab === "" && html`<${Overview} job=${job} />`}
    ${tab === "timeline" && html`<${Timeline} job=${job} />`}
    ${tab === "exceptions" && html`<${Failures} job=${job} />`}
    ${tab === "output" && html`<${JobOutput} job=${job} />`}
    ${tab === "checkpoints" && html`<${Checkpoints} job=${job} />`}
    ${tab === "results" && html`<${JobResults} job=${job} />`}
    ${tab === "lineage" && html`<${Lineage} job=${job} />`}
    ${tab === "configuration" && html`<${Configuration} job=${job} />`}
    ${tab === "vertices" && (chosen ? html`<${VertexPage} job=${job} vertex=${chosen} subtask=${subtask} />` : html`<${Nothing}>This job has no such vertex.<//>`)}`;
}

// ── the head ────────────────────────────────────────────────────────────────────────────────────
function Head({ job, reload }) {
  const line = { state: job.status, reason: job.reason, tasks: { running: job.vertices.some((each) => each.tasks.RUNNING) } };
  const why = lastFailure(job);
  return html`<header class="head">
    <p class="crumbs"><a href="#/">Jobs</a></p>
    <div class="title"><h1>${job.name}</h1><${State} state=${job.status} group=${groupOfJob(line)} /><${Actions} job=${job} reload=${reload} /></div>
    ${job.reason && html`<p class="reason-line" role="status">${job.reason}</p>`}
    ${why && html`<p class="why"><a href=${`#/jobs/${job.job_id}/exceptions`}>${why.location || why.vertex || "Failure"}</a> ${why.message.split("\n")[0]}</p>`}
    <${Facts} facts=${[
      ["Id", html`<${Copy} text=${job.job_id} label="job id" />`],
      ["Started", html`<${Time} ms=${job.start_time_ms} />`],
      ["Duration", html`<${Lasting} start=${job.start_time_ms} end=${job.end_time_ms} state=${job.status} />`],
      ["Kind", job.job_type],
      job.owner && ["Owner", job.owner],
      ["Regions", count(job.regions)],
      ["Restarts", count(job.restarts)],
      job.queue && ["Place in line", `${job.queue.place} in ${job.queue.queue || "default"}`],
    ]} />
  </header>`;
}

const placeIn = (name) => (fields) => (fields.get("directory").trim() ? { [name]: fields.get("directory").trim() } : {});

const Place = () => html`<label>Directory of the savepoint <input name="directory" spellcheck="false" placeholder="as the cluster is configured" /></label>`;

function Actions({ job, reload }) {
  const may = useMay();
  const { state } = useStream();
  const [asked, setAsked] = useState(null);
  const [told, setTold] = useState("");
  useEffect(() => {
    if (hasEnded(job.status)) setTold("");
  }, [job.status]);
  if (!may.end(job) || state === "still") return null;
  if (hasEnded(job.status)) return ["FAILED", "CANCELED"].includes(job.status) ? html`<${Retry} job=${job} />` : null;
  const streams = job.job_type === "streaming";
  const ask = (method, path, body, words) => async ({ signal, fields }) => {
    const answer = await send(method, url`/jobs/${job.job_id}` + path, body && body(fields));
    setTold(words);
    if (answer["request-id"]) setTold(await savepointOf(job, answer["request-id"], signal));
    reload();
  };
  const offered = {
    cancel: ["Cancel job", "PATCH", "?mode=cancel", undefined, "Cancelling …", html`<p>What it has not committed is thrown away. Other jobs are not disturbed.</p>`],
    savepoint: ["Take savepoint", "POST", "/savepoints", placeIn("target-directory"), "A savepoint is being taken.", html`<p>The job runs on.</p><${Place} />`],
    stop: ["Stop with savepoint", "POST", "/stop", (fields) => ({ ...placeIn("targetDirectory")(fields), drain: fields.has("drain") }), "Stopping with a savepoint …", html`<p>The job ends, and can go on from the savepoint.</p><${Place} /><label class="check"><input type="checkbox" name="drain" /> Drain: what its sources have is read to the end first</label>`],
  };
  const open = (name) => html`<button class=${name === "cancel" ? "danger-quiet" : "quiet"} disabled=${job.status === "CANCELLING"} onClick=${() => setAsked(name)}>${offered[name][0]}</button>`;
  const chosen = asked && offered[asked];
  return html`<span class="actions">
    <span role="status">${told}</span>
    ${may.read(job) && job.vertices.some((each) => each.tasks.RUNNING) && html`<${SparkPages} jid=${job.job_id} />`}${streams && open("savepoint")}${streams && open("stop")}${open("cancel")}
    ${chosen && html`<${Confirm} title=${`${chosen[0]} ${job.name}?`} verb=${chosen[0]} danger=${asked === "cancel"} act=${ask(chosen[1], chosen[2], chosen[3], chosen[4])} close=${() => setAsked(null)}>${chosen[5]}<//>`}
  </span>`;
}

// A job that failed or was cancelled, once more; its page is shown when the master has it.
function Retry({ job }) {
  const [isAsked, ask] = useState(false);
  const again = useMemo(freshId, [job.job_id]);
  const act = async ({ signal }) => {
    await send("POST", url`/jobs/${job.job_id}/copy`, { jobId: again }, { signal });
    location.hash = `#/jobs/${again}`;
  };
  return html`<span class="actions"><button class="quiet" onClick=${() => ask(true)}>Retry job</button>
    ${isAsked && html`<${Confirm} title=${`Retry ${job.name}?`} verb="Retry job" danger=${false} act=${act} close=${() => ask(false)}>
      <p>The same graph, options and code are submitted under a new id, and all of it runs anew${job.job_type === "streaming" ? ": the stream begins where this one was started" : ""}. This job stays as it is.</p>
    <//>`}
  </span>`;
}

// The place of a savepoint, once it is there; looked for as long as somebody waits for it. Raises why there is none.
async function savepointOf(job, trigger, signal) {
  for (let look = 0; look < SAVEPOINT_LOOKS_MAX; look++) {
    signal.throwIfAborted();
    const { status, operation } = await get(url`/jobs/${job.job_id}/savepoints/${trigger}`, signal);
    if (status.id === "COMPLETED") {
      const failure = operation?.["failure-cause"];
      if (failure) throw new Error(failure["stack-trace"].split("\n")[0]);
      return operation?.location ? `Savepoint: ${operation.location}` : "";
    }
    await new Promise((done) => setTimeout(done, SAVEPOINT_LOOK_MS));
  }
  throw new Error("It takes long: the job's checkpoints tell when it is there.");
}

// ── the first tab ───────────────────────────────────────────────────────────────────────────────
function Overview({ job }) {
  if (!job.vertices.length) return html`<${Nothing}>${hasEnded(job.status) ? "Of this job no more is known than how it ended." : "Its vertices are not known yet."}<//>`;
  return html`<${Graph} job=${job} />
    <${Panel} title="Vertices">
      <div class="scroll" tabindex="0" role="region" aria-label="Vertices"><table>
        <thead><tr><th scope="col">Vertex</th><th scope="col">State</th><th scope="col">Subtasks</th><th scope="col">Duration</th><th scope="col" class="num">Rows in</th><th scope="col" class="num">Bytes in</th><th scope="col" class="num">Rows out</th><th scope="col" class="num">Bytes out</th><th scope="col" class="num">Spark tasks</th></tr></thead>
        <tbody>${job.vertices.map((vertex) => html`<${VertexRow} key=${vertex.id} job=${job} vertex=${vertex} />`)}</tbody>
      </table></div>
    <//>`;
}

function VertexRow({ job, vertex }) {
  const figures = figuresOf(job, vertex);
  const state = executionState(vertex.status);
  const cell = (value) => html`<td class="num"><${Figure} value=${value} /></td>`;
  return html`<tr>
    <th scope="row"><a href=${`#/jobs/${job.job_id}/vertices/${vertex.id}`}>${vertex.name}</a>${vertex.attempts > 1 && html` <span class="tag">${plural(vertex.attempts, "attempt")}</span>`}</th>
    <td><${State} state=${state} /></td><td><${TaskBar} tasks=${vertex.tasks} /></td>
    <td><${Lasting} start=${vertex.start_time_ms} end=${vertex.end_time_ms} state=${state} /></td>
    ${cell(figures.rowsRead)}${cell(figures.bytesRead)}${cell(figures.rowsWritten)}${cell(figures.bytesWritten)}${cell(figures.sparkTasks && figures.isOfRegion ? html`${figures.sparkTasks} <small>of the region</small>` : figures.sparkTasks)}
  </tr>`;
}

function Configuration({ job }) {
  const pairs = (map) => Object.entries(map).map(([key, value]) => [key, String(value)]);
  const parameters = pairs(job.parameters);
  const options = pairs(job.configuration);
  const times = Object.entries(job.timestamps_ms).filter(([, ms]) => ms > 0).sort((a, b) => a[1] - b[1]);
  return html`
    <${Panel} title="Parameters">${parameters.length ? html`<${Pairs} pairs=${parameters} name="Parameter" />` : html`<${Nothing}>It has none.<//>`}<//>
    <${Panel} title="Options of the job">${options.length ? html`<${Pairs} pairs=${options} />` : html`<${Nothing}>The cluster's options hold: see <a href="#/master">master</a>.<//>`}<//>
    <${Panel} title="States it was in"><ol class="states">${times.map(([state, ms], index) => html`<li><${State} state=${state} /> <${Time} ms=${ms} /> ${index + 1 < times.length && html`<small>for ${duration(times[index + 1][1] - ms)}</small>`}</li>`)}</ol><//>`;
}
