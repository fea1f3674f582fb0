// The master that leads: who it is, how it is configured, its log and threads.
import { useStream, useView } from "./live.js";
import { WholeText } from "./logs.js";
import { Awaited, Facts, Figure, Pairs, Panel, Tabs, Time } from "./parts.js";
import { LogFiles, Threads } from "./worker.js";
import { html, useState } from "./ui.js";

export function MasterPage({ parts: [tab = ""] }) {
  const { leader } = useStream();
  const leads = useView("/cluster/leader", (event) => event.kind === "leader");
  const base = "#/master";
  return html`<header class="head"><div class="title"><h1>Master</h1></div>
      <${Facts} facts=${[
        ["Leader", leader?.["rest-address"] ? leader["rest-address"] : "this master, the only one"],
        leader?.name && ["Name", leader.name],
        leader?.epoch > 0 && ["Epoch", leader.epoch],
        leads.data && ["This page comes from", leads.data.leads ? "the leader" : "a standby, which hands requests on"],
      ]} /></header>
    <${Tabs} label="The master" tabs=${[["", "Configuration", base], ["logs", "Logs", `${base}/logs`], ["threads", "Threads", `${base}/threads`]]} current=${tab} />
    ${tab === "" && html`<${Masters} /><${Options} />`}
    ${tab === "logs" && html`<${Panel} title="Logs"><${LogFiles} path="/jobmanager/logs" reader=${WholeText} /><//>`}
    ${tab === "threads" && html`<${Threads} path="/jobmanager/thread-dump" />`}`;
}

// Whoever leads, and who would take over.
function Masters() {
  const view = useView("/cluster/masters", (event) => event.kind === "leader");
  if (!view.data?.leader.name) return null;
  const { leader, standbys } = view.data;
  return html`<${Panel} title="Masters" aside=${standbys.length === 0 ? "no standby: nobody would take over" : null}>
    <div class="scroll" tabindex="0" role="region" aria-label="Masters"><table>
      <thead><tr><th scope="col">Process</th><th scope="col">Role</th><th scope="col">REST</th></tr></thead>
      <tbody>
        <tr><th scope="row">${leader.node || leader.name}</th><td>leader <small>epoch ${leader.epoch}</small></td><td><a href=${leader["rest-address"]}>${leader["rest-address"]}</a></td></tr>
        ${standbys.map((each) => html`<tr key=${each.name}><th scope="row">${each.name}</th><td>standby</td><td><${Figure} /></td></tr>`)}
      </tbody>
    </table></div>
  <//>`;
}

function Options() {
  const view = useView("/jobmanager/config");
  const [search, setSearch] = useState("");
  const words = search.trim().toLowerCase();
  return html`<${Panel} title="Configuration" aside=${html`<input type="search" id="search" aria-label="Search options" placeholder="Search options" value=${search} onInput=${(event) => setSearch(event.target.value)} />`}>
    <${Awaited} view=${view}>${(options) => html`<${Pairs} pairs=${options.filter((each) => `${each.key} ${each.value}`.toLowerCase().includes(words)).map((each) => [each.key, each.value])} />`}<//>
  <//>`;
}
