// The graph of a job: a card for each vertex, an outline round what is one region, a mark on what is stored.
import { plural } from "./format.js";
import { Figure, Panel, Sign, State, TaskBar } from "./parts.js";
import { executionState, groupOf } from "./states.js";
import { Graph as Layout, layout } from "./vendor/dagre.js";
import { figuresOf, waitsFor } from "./vertices.js";
import { html, useEffect, useMemo, useState } from "./ui.js";

const CARD = { least: 184, most: 300, letter: 8, edges: 56, height: 118 }; // a vertex of chained functions has a long name
const NARROW = "(max-width: 700px)";

export function Graph({ job }) {
  const [narrow, setNarrow] = useState(() => matchMedia(NARROW).matches);
  useEffect(() => {
    const media = matchMedia(NARROW);
    const turn = () => setNarrow(media.matches);
    media.addEventListener("change", turn);
    return () => media.removeEventListener("change", turn);
  }, []);
  const shape = JSON.stringify([job.vertices.map((each) => [each.id, each.first_region]), job.edges.map((each) => [each.source, each.target, each.exchange])]);
  const plan = useMemo(() => laidOut(job, narrow), [shape, narrow]);
  const stored = job.edges.some((edge) => edge.exchange === "blocking");
  const shared = plan.regions.length > 0;
  return html`<${Panel} title="Graph" aside=${html`<span class="legend">${shared && html`<span><i class="outline"></i>one region: one Spark query</span>`}${stored && html`<span><${StoredSign} />stored result</span>`}</span>`}>
    <div class="graph" tabindex="0" role="region" aria-label=${`Graph of ${plural(job.vertices.length, "vertex").replace("vertexs", "vertices")}`}>
      <div class="canvas" style=${{ width: `${plan.width}px`, height: `${plan.height}px` }}>
        ${plan.regions.map((box) => html`<div class="region" style=${placed(box)}></div>`)}
        <svg width=${plan.width} height=${plan.height} aria-hidden="true">
          <defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto"><path d="M0 0 8 4 0 8z" /></marker></defs>
          ${plan.edges.map((edge) => html`<path class=${edge.exchange} d=${edge.path} marker-end="url(#tip)" />`)}
        </svg>
        ${plan.edges.filter((edge) => edge.exchange === "blocking").map((edge) => html`<span class="stored" style=${{ left: `${edge.middle.x}px`, top: `${edge.middle.y}px` }} title=${`stored, ${edge.partitioner}`}><${StoredSign} /><span class="hidden">stored result</span></span>`)}
        ${job.vertices.map((vertex) => html`<${Card} key=${vertex.id} job=${job} vertex=${vertex} place=${plan.places[vertex.id]} />`)}
      </div>
    </div>
  <//>`;
}

const StoredSign = () => html`<svg class="cylinder" viewBox="0 0 16 16" aria-hidden="true"><ellipse cx="8" cy="4" rx="5.4" ry="2.2" /><path d="M2.6 4v8c0 1.2 2.4 2.2 5.4 2.2s5.4-1 5.4-2.2V4" /></svg>`;

const placed = ({ x, y, width, height }) => ({ left: `${x}px`, top: `${y}px`, width: `${width}px`, height: `${height}px` });

function laidOut(job, narrow) {
  const graph = new Layout({ compound: true, multigraph: true });
  graph.setGraph({ rankdir: narrow ? "TB" : "LR", nodesep: 26, ranksep: narrow ? 42 : 46, marginx: 18, marginy: 18 });
  graph.setDefaultEdgeLabel(() => ({}));
  const regions = Map.groupBy(job.vertices, (vertex) => vertex.first_region);
  for (const vertex of job.vertices) graph.setNode(vertex.id, { width: widthOf(vertex), height: CARD.height });
  for (const [first, members] of regions) {
    if (members.length < 2) continue;
    graph.setNode(`region ${first}`, {});
    for (const vertex of members) graph.setParent(vertex.id, `region ${first}`);
  }
  job.edges.forEach((edge, index) => graph.setEdge(edge.source, edge.target, { edge }, String(index)));
  layout(graph);
  const box = (node) => ({ x: node.x - node.width / 2, y: node.y - node.height / 2, width: node.width, height: node.height });
  const edges = graph.edges().map((key) => {
    const { points, edge } = graph.edge(key);
    return { exchange: edge.exchange, partitioner: edge.partitioner, path: curve(points), middle: points[Math.floor(points.length / 2)] };
  });
  return {
    width: graph.graph().width,
    height: graph.graph().height,
    places: Object.fromEntries(job.vertices.map((vertex) => [vertex.id, box(graph.node(vertex.id))])),
    regions: graph.nodes().filter((id) => id.startsWith("region ")).map((id) => box(graph.node(id))),
    edges,
  };
}

const widthOf = (vertex) => Math.min(CARD.most, Math.max(CARD.least, CARD.edges + CARD.letter * vertex.name.length));

// Through the middles of the lines between the points, so that bends are round.
function curve(points) {
  const [first, ...rest] = points;
  let path = `M${first.x} ${first.y}`;
  rest.forEach((point, index) => {
    const next = rest[index + 1];
    path += next ? ` Q${point.x} ${point.y} ${(point.x + next.x) / 2} ${(point.y + next.y) / 2}` : ` L${point.x} ${point.y}`;
  });
  return path;
}

function Card({ job, vertex, place }) {
  const state = executionState(vertex.status);
  const figures = figuresOf(job, vertex);
  const share = figures.sparkShare;
  const inRows = figures.rowsRead !== null || figures.rowsWritten !== null || figures.bytesRead === null;
  const waits = state === "RUNNING" ? waitsFor(vertex) : "";
  return html`<a class="card ${groupOf(state)}" style=${placed(place)} href=${`#/jobs/${job.job_id}/vertices/${vertex.id}`} title=${vertex.name}>
    <span class="first"><${Sign} group=${groupOf(state)} /><strong>${vertex.name}</strong></span>
    <span class="kinds">${vertex.kinds.join(" → ")} <span class="hidden">${state.toLowerCase()}</span></span>
    <${TaskBar} tasks=${vertex.tasks} />
    <span class="figures"><span>${inRows ? "rows" : "bytes"} <b><${Figure} value=${inRows ? figures.rowsRead : figures.bytesRead} /></b> → <b><${Figure} value=${inRows ? figures.rowsWritten : figures.bytesWritten} /></b></span></span>
    <span class="figures">${waits ? html`<span>waits for ${waits}</span>` : html`<span title=${figures.isOfRegion ? "of the whole region" : undefined}>${figures.isOfRegion ? "region’s tasks" : "Spark tasks"} <b><${Figure} value=${figures.sparkTasks} /></b></span>`}${share !== null && html`<span class="meter" aria-hidden="true"><span style=${{ width: `${100 * share}%` }}></span></span>`}</span>
  </a>`;
}
