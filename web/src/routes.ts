// Every page, and where it is.

import type { ComponentType } from "preact";
import { CheckpointsPage } from "./pages/checkpoints";
import { FlowPage } from "./pages/flow";
import { FlowsPage } from "./pages/flows";
import { JobPage } from "./pages/job";
import { JobsPage } from "./pages/jobs";
import { ResourcesPage } from "./pages/resources";
import { RunPage } from "./pages/run";
import { RunsPage } from "./pages/runs";
import { SchedulesPage } from "./pages/schedules";
import { SettingsPage } from "./pages/settings";
import { StartPage } from "./pages/start";
import type { Place } from "./router";

export interface PageProps {
  id: string; // what comes after the first part of the address, in one piece
  query: URLSearchParams;
}

export interface Route {
  at: string; // the first part of the address
  hasId: boolean;
  page: ComponentType<PageProps>;
}

export interface Entry {
  at: string;
  title: string;
  key: string; // after `g`
  icon: string;
  needsQueue?: boolean; // left out by a server that only shows the runs of its process
}

export const ROUTES: Route[] = [
  { at: "jobs", hasId: false, page: JobsPage },
  { at: "jobs", hasId: true, page: JobPage },
  { at: "runs", hasId: false, page: RunsPage },
  { at: "runs", hasId: true, page: RunPage },
  { at: "checkpoints", hasId: false, page: CheckpointsPage },
  { at: "resources", hasId: false, page: ResourcesPage },
  { at: "schedules", hasId: false, page: SchedulesPage },
  { at: "flows", hasId: false, page: FlowsPage },
  { at: "flows", hasId: true, page: FlowPage },
  { at: "start", hasId: false, page: StartPage },
  { at: "settings", hasId: false, page: SettingsPage },
];

export const NAVIGATION: Entry[] = [
  { at: "jobs", title: "Jobs", key: "j", icon: "jobs", needsQueue: true },
  { at: "flows", title: "Flows", key: "f", icon: "flows", needsQueue: true },
  { at: "schedules", title: "Schedules", key: "s", icon: "schedules", needsQueue: true },
  { at: "runs", title: "Runs", key: "r", icon: "runs" },
  { at: "checkpoints", title: "Checkpoints", key: "c", icon: "checkpoints" },
  { at: "resources", title: "Resources", key: "h", icon: "resources" },
  { at: "settings", title: "Settings", key: "t", icon: "settings" },
];

export function routeOf(place: Place): Route | undefined {
  const [at = "jobs"] = place.path;
  return ROUTES.find((route) => route.at === at && route.hasId === place.path.length > 1);
}
