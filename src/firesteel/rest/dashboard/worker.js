// A worker: what it has, what it runs, what it writes, where its threads are.
import { url } from "./api.js";
import { bytes, memory, plural } from "./format.js";
import { nameOf } from "./jobs.js";
import { useView } from "./live.js";
import { FollowedLog } from "./logs.js";
import { Awaited, Facts, Figure, Meter, Nothing, Panel, Tabs, Time } from "./parts.js";
import { SparkPages } from "./spark.js";
import { html, useState } from "./ui.js";

export function WorkerPage({ parts: [id, tab = ""] }) {
  const path = url`/taskmanagers/${id}`;
  const view = useView(path, (event) => event.kind === "workers");
  const base = `#/workers/${encodeURIComponent(id)}`;
  return html`<${Awaited} view=${view}>${(worker) => html`
    <header class="head"><p class="crumbs"><a href="#/">Workers</a></p><div class="title"><h1>${worker.id}</h1></div>
      <${Facts} facts=${[
        ["Address", html`<code>${worker.path}</code>`],
        ["Labels", worker.labels?.length ? worker.labels.join(", ") : null],
        ["Slots in use", html`${worker.slotsNumber - worker.freeSlots} of ${worker.slotsNumber} <${Meter} part=${worker.slotsNumber - worker.freeSlots} whole=${worker.slotsNumber} label="slots in use" />`],
        ["Memory of slots", memory(worker.totalResource.taskHeapMemory)],
        ["Cores of slots", worker.totalResource.cpuCores > 0 ? worker.totalResource.cpuCores : null],
        ["Largest heap", bytes(worker.hardware.freeMemory, 1024)],
        ["Machine", html`${worker.hardware.cpuCores > 0 ? plural(worker.hardware.cpuCores, "core") : html`<${Figure} />`}, <${Figure} value=${bytes(worker.hardware.physicalMemory, 1024)} />`],
        ["Heard of", html`<${Time} ms=${worker.timeSinceLastHeartbeat} />`],
      ]} />
    </header>
    <${Tabs} label="The worker" tabs=${[["", "Slots", base], ["logs", "Logs", `${base}/logs`], ["threads", "Threads", `${base}/threads`]]} current=${tab} />
    ${tab === "" && html`<${Slots} worker=${worker} />`}
    ${tab === "logs" && html`<${Panel} title="Logs"><${LogFiles} path=${`${path}/logs`} /><//>`}
    ${tab === "threads" && html`<${Threads} path=${`${path}/thread-dump`} />`}`}<//>`;
}

function Slots({ worker }) {
  const taken = worker.allocatedSlots;
  const { data: spark } = useView(url`/taskmanagers/${worker.id}/spark`);
  const hasPages = spark?.applications.some((each) => each["tracking-url"]);
  return html`<${Panel} title="Slots in use">${taken.length === 0 ? html`<${Nothing}>All ${worker.slotsNumber} are free.<//>` : html`<div class="scroll" tabindex="0" role="region" aria-label="Slots in use"><table>
    <thead><tr><th scope="col">Job</th><th scope="col" class="num">Cores</th><th scope="col" class="num">Memory</th>${hasPages && html`<th scope="col">Spark</th>`}</tr></thead>
    <tbody>${taken.map((slot) => html`<tr><th scope="row"><a href=${`#/jobs/${slot.jobId}`}>${nameOf(slot.jobId) ?? slot.jobId}</a></th><td class="num">${slot.resource.cpuCores || html`<${Figure} />`}</td><td class="num"><${Figure} value=${memory(slot.resource.taskHeapMemory || null)} /></td>${hasPages && html`<td><${SparkPages} jid=${slot.jobId} /></td>`}</tr>`)}</tbody>
  </table></div>`}<//>`;
}

export function LogFiles({ path, reader = FollowedLog }) {
  const view = useView(path);
  const [chosen, setChosen] = useState(null);
  return html`<${Awaited} view=${view}>${({ logs }) => {
    const open = logs.find((log) => log.name === chosen) ?? logs.find((log) => /^(task|job)manager(-\d+)?\.log$/.test(log.name)) ?? logs[0];
    if (!open) return html`<${Nothing}>No log file is written.<//>`;
    return html`<div class="logs">
      <ul class="files">${logs.map((log) => html`<li><button aria-pressed=${String(log === open)} onClick=${() => setChosen(log.name)}><span class="file">${log.name}</span> <small>${bytes(log.size)} · <${Time} ms=${log.mtime} /></small></button></li>`)}</ul>
      <div><${reader} key=${open.name} path=${path + url`/${open.name}`} label=${open.name} /></div>
    </div>`;
  }}<//>`;
}

export function Threads({ path }) {
  const view = useView(path);
  return html`<${Panel} title="Threads" aside=${html`<button class="quiet" onClick=${view.reload}>Read again</button>`}>
    <${Awaited} view=${view}>${({ threadInfos }) => html`<p class="hint">${plural(threadInfos.length, "thread")}</p><ul class="threads">${threadInfos.map((thread) => html`<li><details open=${threadInfos.length < 6}><summary>${thread.threadName}</summary><pre tabindex="0">${thread.stringifiedThreadInfo}</pre></details></li>`)}</ul>`}<//>
  <//>`;
}
