// Spark's own pages of a job: opened at an address that is good for a while, since a page that one goes to can't show a token.
import { send, url } from "./api.js";
import { html, useState } from "./ui.js";

// `page` is one of them, as Spark knows it; the first one without it.
export function SparkPages({ jid, page = "", children = "Spark’s pages" }) {
  const [why, setWhy] = useState("");
  const open = async () => {
    setWhy("");
    try {
      const { path } = await send("POST", url`/jobs/${jid}/spark-ticket`);
      const address = path.replace(/^\//, "") + page;
      if (!window.open(address, "_blank")) location.assign(address);
    } catch (error) {
      setWhy(error.message);
    }
  };
  return html`<button class="quiet" onClick=${open}>${children}</button>${why && html` <span role="alert">${why}</span>`}`;
}
