// The first page: what there is, what waits and why, what runs and ran.
import { count, memory, plural } from "./format.js";
import { useJobs } from "./jobs.js";
import { now, useStream, useView } from "./live.js";
import { Awaited, Figure, Lasting, Meter, Nothing, Panel, Problem, Sign, State, TaskBar, Time } from "./parts.js";
import { Cell, Rows } from "./rows.js";
import { GROUP_NAMES, GROUPS, groupOfJob } from "./states.js";
import { useMay } from "./user.js";
import { html, useMemo, useState } from "./ui.js";

const WAITING_SHOWN = 8;

export function ClusterPage() {
  const jobs = useJobs();
  const workers = useWorkers();
  const { state } = useStream();
  if (state === "still") return html`<h1 class="hidden">Jobs that have ended</h1><${Jobs} jobs=${jobs} />`;
  return html`<h1 class="hidden">Cluster</h1>
    <${Summary} jobs=${jobs} workers=${workers} />
    <${Waiting} jobs=${jobs} />
    <${Jobs} jobs=${jobs} />
    <${Workers} view=${workers} />`;
}

// Workers as they were read, with what events have said of them since.
function useWorkers() {
  return useView("/taskmanagers", (event) => event.kind === "workers" && (event.data.joined.length > 0 || event.data.left.length > 0), afterEvent);
}

// Each event says how many slots there are, and which workers have other free ones than before.
function afterEvent(view, { kind, data }) {
  if (kind !== "workers") return view;
  const taskmanagers = view.taskmanagers.map((worker) => (data.free[worker.id] === undefined ? worker : { ...worker, freeSlots: data.free[worker.id] }));
  return { taskmanagers, told: data };
}

function totals({ taskmanagers, told }) {
  if (told) return { workers: told.taskmanagers, slots: told["slots-total"], free: told["slots-available"] };
  const sum = (name) => taskmanagers.reduce((total, worker) => total + worker[name], 0);
  return { workers: taskmanagers.length, slots: sum("slotsNumber"), free: sum("freeSlots") };
}

function Summary({ jobs, workers }) {
  const { leader } = useStream();
  const all = workers.data && totals(workers.data);
  const used = all && all.slots - all.free;
  const { waiting, running, trouble } = jobs.counts;
  return html`<dl class="summary">
    <div><dt>Workers</dt><dd>${all ? count(all.workers) : html`<${Figure} />`}</dd></div>
    <div><dt>Slots in use</dt><dd>${all ? html`${count(used)} <small>of ${count(all.slots)}</small> <${Meter} part=${used} whole=${all.slots} label=${`${used} of ${all.slots} slots in use`} />` : html`<${Figure} />`}</dd></div>
    <div><dt>Jobs running</dt><dd>${jobs.isRead ? count(running + trouble) : html`<${Figure} />`}</dd></div>
    <div><dt>Jobs waiting</dt><dd>${jobs.isRead ? count(waiting) : html`<${Figure} />`}</dd></div>
    <div class="wide"><dt>Leader</dt><dd class="words">${leader?.["rest-address"] ? html`${leader["rest-address"].replace(/^https?:\/\//, "")} <small>epoch ${leader.epoch}</small>` : html`this master <small>the only one</small>`}</dd></div>
  </dl>`;
}

// ── who waits ───────────────────────────────────────────────────────────────────────────────────
function Waiting({ jobs }) {
  const { data: line } = useView("/queue", undefined, (before, { kind, data }) => (kind === "queue" ? data : before));
  if (!line?.waiting) return null;
  const shown = line.first.slice(0, WAITING_SHOWN);
  return html`<${Panel} title="Waiting for slots" aside=${plural(line.waiting, "job")}>
    <ol class="waiting">${shown.map(
      (each) => html`<li key=${each.jid}>
        <span class="place">${each.place}</span>
        <a href=${`#/jobs/${each.jid}`}>${jobs.lines.get(each.jid)?.name ?? each.jid.slice(0, 8)}</a>
        <span class="reason">lacks ${plural(each["slots-missing"], "slot")}: ${each.reason}</span>
        ${each.queue && each.queue !== "default" && html`<span class="tag">${each.queue}</span>`}
      </li>`,
    )}</ol>
    ${line.waiting > shown.length && html`<p class="more">and ${plural(line.waiting - shown.length, "more job")} behind them</p>`}
  <//>`;
}

// ── jobs ────────────────────────────────────────────────────────────────────────────────────────
function Jobs({ jobs }) {
  const may = useMay();
  const [search, setSearch] = useState("");
  const [group, setGroup] = useState("");
  const words = search.trim().toLowerCase();
  const rows = useMemo(
    () => jobs.order.filter((line) => (!group || groupOfJob(line) === group) && (!words || `${line.name} ${line.jid} ${line.owner}`.toLowerCase().includes(words))),
    [jobs.order, group, words],
  );
  const owned = useMemo(() => jobs.order.some((line) => line.owner), [jobs.order]);
  const shown = GROUPS.filter((each) => jobs.counts[each] || each === group);
  const columns = [["State", "s"], ["Job", "n"], ["Subtasks", "t"], ["Started", "b"], ["Duration", "d"], ...(owned ? [["Owner", "o"]] : [])];
  return html`<${Panel} title="Jobs" aside=${html`<input type="search" id="search" placeholder="Search name, id, owner" aria-label="Search jobs" title="Press / to search" value=${search} onInput=${(event) => setSearch(event.target.value)} />`}>
    ${jobs.error && jobs.error.status !== 401 && html`<${Problem} error=${jobs.error} again=${jobs.reload} />`}
    ${jobs.order.length > 0 && html`<div class="filters" role="group" aria-label="Jobs by state">
      <${Filter} name="All" number=${jobs.order.length} chosen=${!group} choose=${() => setGroup("")} />
      ${shown.map((each) => html`<${Filter} key=${each} group=${each} name=${GROUP_NAMES[each]} number=${jobs.counts[each]} chosen=${group === each} choose=${() => setGroup(group === each ? "" : each)} />`)}
    </div>`}
    ${!jobs.isRead && !jobs.error && html`<p class="awaited" role="status">Loading …</p>`}
    ${jobs.isRead && !jobs.order.length && html`<${Nothing}>No job yet${may.submit ? "" : "."}${may.submit && html`. <a href="#/submit">Submit one</a>, or run <code>firesteel submit FILE</code>.`}<//>`}
    ${jobs.isRead && jobs.order.length > 0 && !rows.length && html`<${Nothing}>No job is like that.<//>`}
    ${rows.length > 0 && html`<${Rows} kind=${owned ? "jobs owned" : "jobs"} label="Jobs" columns=${columns} rows=${rows} rowHeight=${44} narrowHeight=${68} keyOf=${(line) => line.jid} row=${(line) => html`<${JobRow} line=${line} owned=${owned} />`} />`}
  <//>`;
}

function Filter({ group, name, number, chosen, choose }) {
  return html`<button class="filter ${group ?? ""}" aria-pressed=${String(chosen)} onClick=${choose}>${group && html`<${Sign} group=${group} />`}${name} <span class="number">${count(number)}</span></button>`;
}

function JobRow({ line, owned }) {
  return html`<${Cell} style="s"><${State} state=${line.state} group=${groupOfJob(line)} /><//>
    <${Cell} style="n"><a href=${`#/jobs/${line.jid}`} title=${line.name}>${line.name}</a>${line.reason && html`<small title=${line.reason}>${line.reason}</small>`}<//>
    <${Cell} style="t"><${TaskBar} tasks=${line.tasks} /><//>
    <${Cell} style="b"><${Time} ms=${line["start-time"]} /><//>
    <${Cell} style="d"><${Lasting} start=${line["start-time"]} end=${line["end-time"]} state=${line.state} /><//>
    ${owned && html`<${Cell} style="o">${line.owner}<//>`}`;
}

// ── workers ─────────────────────────────────────────────────────────────────────────────────────
function Workers({ view }) {
  return html`<${Panel} title="Workers">
    <${Awaited} view=${view}>${({ taskmanagers: workers }) =>
      workers.length === 0
        ? html`<${Nothing}>No worker is here: jobs wait until <code>firesteel taskmanager</code> has started one.<//>`
        : html`<${Rows} kind="workers" label="Workers" columns=${[["Worker", "n"], ["Slots in use", "t"], ["Memory", "m"], ["Cores", "c"], ["Address", "a"]]} rows=${workers} rowHeight=${44} narrowHeight=${68} lines=${8} keyOf=${(worker) => worker.id} row=${(worker) => html`<${WorkerRow} worker=${worker} />`} />`}<//>
  <//>`;
}

function WorkerRow({ worker }) {
  const used = worker.slotsNumber - worker.freeSlots;
  const silent = now() - worker.timeSinceLastHeartbeat;
  return html`<${Cell} style="n"><a href=${`#/workers/${encodeURIComponent(worker.id)}`}>${worker.id}</a>${worker.blocked && html`<small>blocked</small>`}${worker.labels?.length > 0 && html`<small>${worker.labels.join(", ")}</small>`}<//>
    <${Cell} style="t"><span title=${`last heard of ${Math.round(silent / 1000)} s ago`}>${used}/${worker.slotsNumber}</span> <${Meter} part=${used} whole=${worker.slotsNumber} label=${`${used} of ${worker.slotsNumber} slots in use`} /><//>
    <${Cell} style="m"><${Figure} value=${memory(worker.totalResource.taskHeapMemory)} /><//>
    <${Cell} style="c">${worker.hardware.cpuCores > 0 ? worker.hardware.cpuCores : html`<${Figure} />`}<//>
    <${Cell} style="a"><code>${worker.path}</code><//>`;
}
