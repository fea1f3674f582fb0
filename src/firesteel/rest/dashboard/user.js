// Who looks, and what he may do: what he may not is not offered. The master decides in any case.
import { createContext, useContext } from "./ui.js";

export const UserContext = createContext(null);

export function useMay() {
  const user = useContext(UserContext);
  const has = (role) => user?.roles.includes(role) ?? false;
  return {
    submit: has("submit"),
    end: (job) => has("operate") || (has("submit") && user.name !== "" && job.owner === user.name),
    read: (job) => !job.owner || has("operate") || user?.name === job.owner,
  };
}
