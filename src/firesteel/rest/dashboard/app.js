// The frame of the page: where one is, who one is, whether it is live, light or dark.
import { get, token, whenRefused } from "./api.js";
import { ClusterPage } from "./cluster.js";
import { forget } from "./jobs.js";
import { start, useStream } from "./live.js";
import { Problem } from "./parts.js";
import { UserContext } from "./user.js";
import { html, render, useEffect, useRef, useState } from "./ui.js";

const THEME = "firesteel.theme";
const pages = { // loaded when somebody goes there
  jobs: () => import("./job.js").then((module) => module.JobPage),
  workers: () => import("./worker.js").then((module) => module.WorkerPage),
  submit: () => import("./submit.js").then((module) => module.SubmitPage),
  master: () => import("./master.js").then((module) => module.MasterPage),
};

const NOWHERE = ["nowhere"];
const DOTS = [".", ".."]; // would lead elsewhere in a path of REST

function where() {
  try {
    const parts = location.hash.replace(/^#\/?/, "").split("/").filter(Boolean).map(decodeURIComponent);
    if (parts.some((part) => DOTS.includes(part))) return NOWHERE;
    return parts.length ? parts : ["cluster"];
  } catch {
    return NOWHERE; // a % that escapes nothing
  }
}

function useWhere() {
  const [parts, setParts] = useState(where);
  useEffect(() => {
    const move = () => setParts(where());
    addEventListener("hashchange", move);
    return () => removeEventListener("hashchange", move);
  }, []);
  return parts;
}

function Page({ parts }) {
  const [loaded, setLoaded] = useState({ name: "cluster", page: ClusterPage, error: null });
  const name = parts[0];
  useEffect(() => {
    if (name === "cluster") return setLoaded({ name, page: ClusterPage, error: null });
    if (!Object.hasOwn(pages, name)) return setLoaded({ name, page: null, error: new Error("There is no such page.") });
    let wanted = true;
    pages[name]().then(
      (page) => wanted && setLoaded({ name, page, error: null }),
      () => wanted && setLoaded({ name, page: null, error: new Error("This part of the page could not be loaded: reload it.") }),
    );
    return () => (wanted = false);
  }, [name]);
  useEffect(() => {
    scrollTo(0, 0);
    document.getElementById("main").focus({ preventScroll: true });
  }, [name, parts[1]]);
  if (loaded.error && loaded.name === name) return html`<${Problem} error=${loaded.error} />`;
  return loaded.name === name ? html`<${loaded.page} parts=${parts.slice(1)} />` : html`<p class="awaited" role="status">Loading …</p>`;
}

// ── light and dark ──────────────────────────────────────────────────────────────────────────────
function Theme() {
  const [theme, setTheme] = useState(localStorage.getItem(THEME) ?? "auto");
  useEffect(() => {
    if (theme === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
    localStorage.setItem(THEME, theme);
  }, [theme]);
  const next = { auto: "light", light: "dark", dark: "auto" }[theme];
  return html`<button class="quiet theme" onClick=${() => setTheme(next)} title=${`Theme: ${theme}; press for ${next}`} aria-label=${`Theme: ${theme}. Change to ${next}`}>
    <svg viewBox="0 0 16 16" class="sign" aria-hidden="true"><circle cx="8" cy="8" r="6" fill="none" stroke="currentColor" stroke-width="1.6" /><path d=${theme === "dark" ? "M8 2a6 6 0 0 1 0 12 6 6 0 0 1 0-12z" : theme === "light" ? "" : "M8 2a6 6 0 0 1 0 12z"} fill="currentColor" /></svg><span class="wide-only">${theme}</span>
  </button>`;
}

const STREAM_WORDS = { connecting: "connecting", live: "live", away: "reconnecting", still: "archive", refused: "not logged in" };

function Live() {
  const { state } = useStream();
  return html`<span class="live ${state}" role="status">${STREAM_WORDS[state]}</span>`;
}

// ── who one is ──────────────────────────────────────────────────────────────────────────────────
function Login({ message, done }) {
  const dialog = useRef(null);
  useEffect(() => dialog.current.showModal(), []);
  const enter = (event) => {
    event.preventDefault();
    token.set(new FormData(event.target).get("token").trim());
    done();
  };
  return html`<dialog ref=${dialog} class="login" aria-labelledby="login-title" onCancel=${(event) => event.preventDefault()}>
    <form onSubmit=${enter}>
      <h2 id="login-title">This cluster asks who you are</h2>
      ${message && token.get() && html`<p class="problem" role="alert">${message}</p>`}
      <label>Token <input name="token" type="password" autocomplete="current-password" required autofocus /></label>
      <p class="hint">It is kept until this tab is closed.</p>
      <div class="buttons"><button class="primary">Log in</button></div>
    </form>
  </dialog>`;
}

function App() {
  const parts = useWhere();
  const { state } = useStream();
  const [session, setSession] = useState(0); // grows with each login, and everything is read anew
  const [asked, setAsked] = useState(null);
  const [user, setUser] = useState(null);
  useEffect(() => {
    whenRefused((message) => setAsked({ message }));
    get("/user").then(setUser, () => setUser(null));
    start();
  }, [session]);
  const again = () => {
    setAsked(null);
    forget();
    setSession(session + 1);
  };
  const leave = () => {
    token.set("");
    location.reload();
  };
  useEffect(() => {
    const search = (event) => {
      const field = document.getElementById("search");
      if (event.key !== "/" || !field || /^(input|textarea|select)$/i.test(event.target.tagName)) return;
      event.preventDefault();
      field.focus();
    };
    addEventListener("keydown", search);
    return () => removeEventListener("keydown", search);
  }, []);
  const link = (name, href, text) => html`<a href=${href} aria-current=${parts[0] === name || (name === "cluster" && ["jobs", "workers"].includes(parts[0])) ? "page" : undefined}>${text}</a>`;
  return html`<${UserContext.Provider} value=${user}>
    <a class="skip" href="#main" onClick=${(event) => { event.preventDefault(); document.getElementById("main").focus(); }}>To the content</a>
    <header class="top">
      <a class="brand" href="#/"><svg viewBox="0 0 24 24" aria-hidden="true"><path d="M13.6 1.5 5 13.2h5.2L8.9 22.5 18.5 9.9h-5.8z" /></svg>firesteel</a>
      <nav aria-label="Pages">${link("cluster", "#/", state === "still" ? "History" : "Cluster")}${state !== "still" && html`${link("submit", "#/submit", "Submit")}${link("master", "#/master", "Master")}`}</nav>
      <div class="right"><${Live} />${user?.name && html`<span class="user">${user.name}</span>`}${user?.["needs-token"] && html`<button class="quiet" onClick=${leave}>Log out</button>`}<${Theme} /></div>
    </header>
    <main id="main" tabindex="-1" key=${session}><${Page} parts=${parts} /></main>
    ${asked && html`<${Login} message=${asked.message} done=${again} />`}
  <//>`;
}

render(html`<${App} />`, document.getElementById("app"));
