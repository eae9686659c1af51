// Who looks at the page, and what they may do.

import { createContext } from "preact";
import { useContext } from "preact/hooks";
import type { Me, Role } from "./types";

const RANKS: Role[] = ["read", "operate", "admin"];

export const Session = createContext<Me>({ name: "", role: "read" });

export function useMe(): Me {
  return useContext(Session);
}

// Whether a button that needs a role is shown. The server decides again.
export function useMay(role: Role): boolean {
  return RANKS.indexOf(useMe().role) >= RANKS.indexOf(role);
}
