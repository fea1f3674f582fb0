// What Spark does for an attempt: its queries with plans and figures, and their stages. Asked of Spark when somebody looks.
import { get, url } from "./api.js";
import { bytes, count, duration, exact, plural, time } from "./format.js";
import { Figure, Lasting, Nothing, Panel, Problem, State, Time } from "./parts.js";
import { SparkPages } from "./spark.js";
import { html, useEffect, useState } from "./ui.js";

const GROUPS = { RUNNING: "running", ACTIVE: "running", COMPLETED: "finished", COMPLETE: "finished", FAILED: "failed", SKIPPED: "cancelled" };
const WRAPPERS = ["AdaptiveSparkPlan", "ResultQueryStage"];
const CODEGEN = /^WholeStageCodegen \((\d+)\)$/;
const NONE = /^0(\.0)?( ?(ms|s|B))?$/;
const ROWS = "number of output rows";
const SPREAD = /^total \([^\n]*\n/; // then the sum, and how it is spread over tasks

const sumOf = (value) => value.replace(SPREAD, "").replace(/ \(.*$/s, "");

// The nodes from the last one upwards, each with how far it is from that; and how long each piece of generated code took.
function planOf(query) {
  const code = new Map();
  const readers = Map.groupBy(query.nodes, (node) => node.feeds);
  const found = [];
  const add = (node, depth) => {
    found.push({ node, depth });
    (readers.get(node.node) ?? []).forEach((each) => add(each, depth + 1));
  };
  const isCode = (node) => {
    const [, number] = node.name.match(CODEGEN) ?? [];
    if (number) code.set(Number(number), node.figures.map(([, value]) => sumOf(value))[0]);
    return Boolean(number);
  };
  (readers.get(-1) ?? []).filter((node) => !isCode(node)).forEach((node) => add(node, 0));
  return { found, code };
}

export function SparkWork({ job, vertex, subtask, attempt }) {
  const [state, setState] = useState({ busy: true, told: null, error: null, at: 0 });
  const look = async () => {
    setState((known) => ({ ...known, busy: true, error: null }));
    try {
      const told = await get(url`/jobs/${job.job_id}/vertices/${vertex.id}/subtasks/${subtask}/attempts/${attempt}/spark`);
      setState({ busy: false, told, error: null, at: Date.now() });
    } catch (error) {
      setState((known) => ({ ...known, busy: false, error }));
    }
  };
  useEffect(() => { look(); }, [job.job_id, vertex.id, subtask, attempt]);
  const { busy, told, error, at } = state;
  const { queries = [], stages = [], total, truncated } = told?.work ?? {};
  return html`<${Panel} title="Spark" aside=${html`<span role="status">${busy ? "Asking Spark …" : at ? `attempt ${attempt}, at ${time(at)}` : ""}</span> <button class="quiet" disabled=${busy} onClick=${look}>Look again</button>`}>
    ${error && html`<${Problem} error=${error} />`}
    ${told?.missing && html`<${Missing} reason=${told.missing} />`}
    ${told && !told.missing && queries.length + stages.length === 0 && html`<${Nothing}>Spark knows no work of this attempt: it has not begun, or was long ago.<//>`}
    ${truncated && html`<p class="stale">There are older ones, which Spark’s pages show.</p>`}
    ${stages.length > 0 && html`<${Total} total=${total} />`}
    ${queries.map((query) => html`<${Query} key=${query.query} job=${job} query=${query} isOpen=${query === queries[0]} />`)}
    ${stages.length > 0 && html`<${Stages} job=${job} stages=${stages} />`}
  <//>`;
}

function Total({ total }) {
  const figures = [
    ["In Spark", duration(total.spark_ms)],
    ["Tasks", exact(total.tasks)],
    ["All tasks took", duration(total.task_ms)],
    ["Shuffle read", bytes(total.shuffle_bytes_read)],
    ["Shuffle write", bytes(total.shuffle_bytes_written)],
    ["Spilled from memory", bytes(total.memory_bytes_spilled)],
    ["Spilled to disk", bytes(total.disk_bytes_spilled)],
  ];
  return html`<p class="spark-figures" aria-label="Of all of them">${figures.map(([name, value]) => html`<span>${name} <b>${value}</b></span>`)}</p>`;
}

// The sentence names the option, if there is one.
function Missing({ reason }) {
  return html`<${Nothing}>${reason.split(/(taskmanager\.[a-z.-]*[a-z])/).map((part, place) => (place % 2 ? html`<code>${part}</code>` : part))}<//>`;
}

function Query({ job, query, isOpen }) {
  const { found, code } = planOf(query);
  const name = found.map(({ node }) => node.name).find((each) => !WRAPPERS.includes(each));
  return html`<details class="query" open=${isOpen}>
    <summary>Query ${query.query}${name ? `: ${name}` : ""} <${State} state=${query.status} group=${GROUPS[query.status]} /> ${duration(query.duration)}</summary>
    <p class="meta">Begun <${Time} ms=${query.started} /> · <${SparkPages} jid=${job.job_id} page=${`SQL/execution/?id=${query.query}`}>Query ${query.query} in Spark<//></p>
    ${found.length === 0 ? html`<p class="meta">Spark tells no plan of it yet.</p>` : html`<div class="scroll" tabindex="0" role="region" aria-label=${`Plan of query ${query.query}`}><table>
      <thead><tr><th scope="col">Step, the last one first</th><th scope="col" class="num">Rows out</th><th scope="col">Figures</th></tr></thead>
      <tbody>${found.map(({ node, depth }) => html`<${Step} key=${node.node} node=${node} depth=${depth} took=${code.get(node.codegen)} />`)}</tbody>
    </table></div>`}
    ${query.plan && html`<details><summary>Plan as text</summary><pre tabindex="0">${query.plan}</pre></details>`}
  </details>`;
}

function Step({ node, depth, took }) {
  const rows = node.figures.find(([name]) => name === ROWS)?.[1];
  const figures = node.figures.filter(([name, value]) => name !== ROWS && !NONE.test(sumOf(value)));
  return html`<tr><th scope="row" style=${{ paddingLeft: `${1.1 + Math.min(depth, 12) * 0.8}rem` }} title=${node.description}>${node.name}${node.codegen >= 0 && html` <small title="Steps with one number run as one piece of generated code">*${node.codegen}${took ? ` ${took}` : ""}</small>`}</th>
    <td class="num"><${Figure} value=${rows ?? null} /></td>
    <td class="spark-figures">${figures.map(([name, value]) => html`<span title=${value}>${name} <b>${sumOf(value)}</b></span>`)}</td></tr>`;
}

function Stages({ job, stages }) {
  const num = (value) => html`<td class="num"><${Figure} value=${value} /></td>`;
  return html`<h3>${plural(stages.length, "stage")}</h3><div class="scroll" tabindex="0" role="region" aria-label="Stages"><table class="stages">
    <thead><tr><th scope="col">Stage</th><th scope="col">Query</th><th scope="col">State</th><th scope="col" class="num">Tasks</th><th scope="col" class="num">Lasted</th><th scope="col" class="num">Rows read</th><th scope="col" class="num">Bytes read</th><th scope="col" class="num">Shuffle read</th><th scope="col" class="num">Shuffle write</th><th scope="col" class="num">Spilled</th></tr></thead>
    <tbody>${stages.map((each) => html`<tr key=${`${each.stage}.${each.attempt}`}>
      <th scope="row"><${SparkPages} jid=${job.job_id} page=${`stages/stage/?id=${each.stage}&attempt=${each.attempt}`}>${each.stage}${each.attempt > 0 && ` #${each.attempt}`}<//> ${each.name}</th>
      ${num(each.query >= 0 ? each.query : null)}<td><${State} state=${each.status} group=${GROUPS[each.status]} /></td>
      ${num(`${exact(each.done)}/${exact(each.tasks)}${each.failed ? `, ${each.failed} failed` : ""}`)}<td class="num"><${Lasting} start=${each.started} end=${each.ended} state=${each.status === "ACTIVE" ? "RUNNING" : "FINISHED"} /></td>
      ${num(count(each.rows_read))}${num(bytes(each.bytes_read))}${num(bytes(each.shuffle_bytes_read))}${num(bytes(each.shuffle_bytes_written))}${num(bytes(each.disk_bytes_spilled))}</tr>`)}</tbody>
  </table></div>`;
}
