// A flame graph of a vertex or subtask that runs: made when somebody asks. Wider is more often seen; a press makes a part as wide as all.
import { get, url } from "./api.js";
import { count, time } from "./format.js";
import { Nothing, Panel, Problem } from "./parts.js";
import { html, useMemo, useState } from "./ui.js";

const KINDS = [["full", "All"], ["on_cpu", "Computing"], ["off_cpu", "Waiting"]];
const ROW = 20; // pixels
const LEAST = 0.002; // parts of the width that are drawn
const HUES = { Python: "python", "JVM: Spark tasks": "tasks", "JVM: queries of Spark Connect": "queries", "JVM: streaming queries": "queries" };

// Rectangles of a tree, in parts of the width: what is above the chosen node is as wide as that.
function rectangles(root, chosen) {
  const path = chosen.reduce((nodes, index) => [...nodes, nodes.at(-1).children[index]], [root]);
  const found = [];
  path.slice(0, -1).forEach((node, depth) => found.push({ node, depth, x: 0, width: 1, path: chosen.slice(0, depth), isAbove: true }));
  const add = (node, depth, x, width, at, kind) => {
    if (width < LEAST) return;
    found.push({ node, depth, x, width, path: at, kind });
    let left = x;
    node.children.forEach((child, index) => {
      const share = (width * child.value) / (node.value || 1);
      add(child, depth + 1, left, share, [...at, index], depth === 0 ? HUES[child.name] : kind);
      left += share;
    });
  };
  add(path.at(-1), path.length - 1, 0, 1, chosen, path.length > 1 ? HUES[path[1].name] : undefined);
  return found;
}

export function Flames({ job, vertex, subtask }) {
  const [kind, setKind] = useState("full");
  const [state, setState] = useState({ busy: false, graph: null, error: null });
  const [chosen, choose] = useState([]);
  const make = async (type) => {
    setKind(type);
    setState({ ...state, busy: true, error: null });
    try {
      const place = subtask === undefined ? "" : `&subtaskindex=${subtask}`;
      const graph = await get(url`/jobs/${job.job_id}/vertices/${vertex.id}/flamegraph?type=${type}` + place);
      choose([]);
      setState({ busy: false, graph, error: null });
    } catch (error) {
      setState({ busy: false, graph: null, error });
    }
  };
  const { busy, graph, error } = state;
  const made = graph && graph.endTimestamp > 0;
  return html`<${Panel} title="Flame graph" aside=${html`<span role="status">${busy ? "Looking where it is …" : made ? `${count(graph.data.value)} samples at ${time(graph.endTimestamp)}` : ""}</span>`}>
    <div class="filters" role="group" aria-label="Samples">${KINDS.map(([type, name]) => html`<button class="filter" disabled=${busy} aria-pressed=${String(Boolean(graph) && kind === type)} onClick=${() => make(type)}>${name}</button>`)}</div>
    ${error && html`<${Problem} error=${error} again=${() => make(kind)} />`}
    ${!graph && !error && !busy && html`<${Nothing}>Made when asked for: some looks at where its Python and its JVM are.<//>`}
    ${graph?.endTimestamp === -1 && html`<${Nothing}>Nothing of it runs at the moment.<//>`}
    ${graph?.endTimestamp === -2 && html`<${Nothing}>Flame graphs are switched off: <code>rest.flamegraph.enabled</code>.<//>`}
    ${made && (graph.data.value === 0 ? html`<${Nothing}>No such sample was taken.<//>` : html`<${Tree} root=${graph.data} chosen=${chosen} choose=${choose} />`)}
  <//>`;
}

function Tree({ root, chosen, choose }) {
  const shown = useMemo(() => rectangles(root, chosen), [root, chosen]);
  const depth = Math.max(...shown.map((each) => each.depth)) + 1;
  const words = (node) => `${node.name}: ${count(node.value)} of ${count(root.value)} samples`;
  return html`<div class="flames scroll" tabindex="0" role="region" aria-label="Stacks">
    <div class="stacks" style=${{ height: `${depth * ROW}px` }}>${shown.map(({ node, depth: row, x, width, path, kind, isAbove }) => html`<button key=${path.join("-")} class="frame ${kind ?? ""} ${isAbove ? "above" : ""}" title=${words(node)} aria-label=${words(node)} onClick=${() => choose(path)} style=${{ left: `${100 * x}%`, width: `${100 * width}%`, top: `${row * ROW}px` }}>${width > 0.02 ? node.name : ""}</button>`)}</div>
  </div>`;
}
