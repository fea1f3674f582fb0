// Figures as people read them. What is not known is null here, and shown as absent.

const whole = new Intl.NumberFormat("en");
const compact = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
const clock = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const day = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short" });
const full = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "medium" });

export const known = (value) => (value === undefined || value === null || value < 0 ? null : value);

export function count(value) {
  if (known(value) === null) return null;
  return value < 100_000 ? whole.format(value) : compact.format(value);
}

export function exact(value) {
  return known(value) === null ? null : whole.format(value);
}

export function plural(value, word) {
  return `${count(value)} ${word}${value === 1 ? "" : "s"}`;
}

export function bytes(value, unit = 1000) {
  if (known(value) === null) return null;
  const names = unit === 1024 ? ["B", "KiB", "MiB", "GiB", "TiB"] : ["B", "kB", "MB", "GB", "TB"];
  let step = 0;
  while (value >= unit && step < names.length - 1) {
    value /= unit;
    step += 1;
  }
  return `${step === 0 || value >= 100 ? Math.round(value) : value.toFixed(1)} ${names[step]}`;
}

export function duration(ms) {
  if (known(ms) === null) return null;
  if (ms < 1_000) return `${Math.round(ms)} ms`;
  const seconds = ms / 1_000;
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  if (seconds < 60) return `${Math.round(seconds)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${pad(seconds % 60)} s`;
  const hours = Math.floor(minutes / 60);
  if (hours < 24) return `${hours} h ${pad(minutes % 60)} min`;
  return `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

const pad = (value) => String(Math.floor(value)).padStart(2, "0");

export function time(ms) {
  if (known(ms) === null || ms === 0) return null;
  const then = new Date(ms);
  const text = clock.format(then);
  return then.toDateString() === new Date().toDateString() ? text : `${day.format(then)}, ${text}`;
}

export function fullTime(ms) {
  return known(ms) === null ? "" : full.format(new Date(ms));
}

export function memory(mib) {
  return known(mib) === null ? null : bytes(mib * 1024 * 1024, 1024);
}

export function short(id) {
  return id ? id.slice(0, 8) : "";
}
