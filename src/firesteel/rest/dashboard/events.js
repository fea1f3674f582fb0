// What a job's journal says has happened: marks over a span of time, and the same as lines.
import { Nothing, Panel, Time } from "./parts.js";
import { html } from "./ui.js";

const LINES = 200;
const GROUPS = { state: "running", deployed: "waiting", finished: "finished", failed: "failed", failure: "failed", canceled: "cancelled", checkpoint: "finished", savepoint: "finished" };

export function Marks({ events, from, to }) {
  return html`<span class="marks" aria-hidden="true">${events.filter((each) => each.time >= from && each.time <= to).map((each) => html`<span class=${`mark ${GROUPS[each.kind] ?? ""} at-${each.kind}`} title=${`${each.kind}: ${each.words}`} style=${{ left: `${(100 * (each.time - from)) / (to - from)}%` }}></span>`)}</span>`;
}

// `go` is given the time of the event that one goes to.
export function EventList({ info, go }) {
  const shown = info.events.slice(-LINES).toReversed();
  return html`<${Panel} title="What happened" aside="newest first">${shown.length === 0 ? html`<${Nothing}>Nothing yet.<//>` : html`<ol class="events" tabindex="0" aria-label="Events">${shown.map((each) => html`<li>
    <button class="quiet" onClick=${() => go(each.time)}><${Time} ms=${each.time} /></button><span class="tag ${GROUPS[each.kind] ?? ""}">${each.kind}</span><span>${each.words}</span></li>`)}</ol>`}
    ${(info.truncated || info.events.length > shown.length) && html`<p class="more">There are older ones.</p>`}<//>`;
}
