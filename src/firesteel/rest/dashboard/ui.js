// What every module of the page takes from the libraries.
import { h, render, createContext, Fragment } from "./vendor/preact.js";
import htm from "./vendor/htm.js";

export { render, createContext, Fragment };
export { useState, useEffect, useLayoutEffect, useMemo, useRef, useCallback, useReducer, useContext, useId } from "./vendor/hooks.js";
export const html = htm.bind(h);
