// What a job's attempts have printed: a script's output, which the master keeps, and the logs of attempts on workers.
import { url } from "./api.js";
import { bytes } from "./format.js";
import { useView } from "./live.js";
import { FollowedLog, GrowingText } from "./logs.js";
import { Awaited, Nothing, Panel, Tabs } from "./parts.js";
import { hasEnded } from "./states.js";
import { useMay } from "./user.js";
import { html, useState } from "./ui.js";

export function JobOutput({ job }) {
  const may = useMay();
  if (!may.read(job)) return html`<${Panel} title="Output"><${Nothing}>What a job prints is for ${job.owner}, who submitted it, and for who operates the cluster.<//><//>`;
  return job.vertices.some((vertex) => vertex.is_script) ? html`<${ScriptOutput} job=${job} />` : html`<${Panel} title="Output"><${AttemptLogs} job=${job} /><//>`;
}

// Of the newest attempt, which another one follows, or of one that was chosen.
function ScriptOutput({ job }) {
  const [stream, setStream] = useState("stdout");
  const [chosen, setChosen] = useState(null);
  const attempts = Math.max(...job.vertices.map((vertex) => vertex.attempts));
  const attempt = chosen ?? attempts - 1;
  const select = html`<label>Attempt <select value=${attempt} onChange=${(event) => setChosen(Number(event.target.value) === attempts - 1 ? null : Number(event.target.value))}>${Array.from({ length: attempts }, (_, number) => html`<option value=${number}>${number}</option>`)}</select></label>`;
  return html`<${Panel} title="Output of the script" aside=${html`<span class="choice">${attempts > 1 && select}${["stdout", "stderr"].map((each) => html`<button class="filter" aria-pressed=${String(each === stream)} onClick=${() => setStream(each)}>${each}</button>`)}</span>`}>
    <${GrowingText} path=${url`/jobs/${job.job_id}/output?stream=${stream}&attempt=${attempt}`} label=${`${stream} of attempt ${attempt}`} isOver=${hasEnded(job.status) || attempt < attempts - 1} />
  <//>`;
}

// Of all attempts, or of those that `belongs` takes.
export function AttemptLogs({ job, belongs = () => true }) {
  const view = useView(url`/jobs/${job.job_id}/logs`);
  const [chosen, setChosen] = useState(null);
  return html`<${Awaited} view=${view}>${(data) => {
    const logs = data.logs.filter((log) => log.size > 0 && belongs(log));
    const open = logs.find((log) => log.name === chosen) ?? logs[0];
    if (!open) return html`<${Nothing}>Nothing was printed, or the workers that ran it are gone with what was.<//>`;
    return html`<div class="logs">
      <ul class="files">${logs.map((log) => html`<li><button aria-pressed=${String(log === open)} onClick=${() => setChosen(log.name)}>${log.vertices.join(", ")} <small>region ${log.region}, attempt ${log.attempt} · ${bytes(log.size)}</small></button></li>`)}</ul>
      <div><${FollowedLog} key=${open.name} path=${url`/taskmanagers/${open["taskmanager-id"]}/logs/${open.name}`} label=${`Printed by ${open.vertices.join(", ")}`} /></div>
    </div>`;
  }}<//>`;
}
