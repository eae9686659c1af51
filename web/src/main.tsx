import { render } from "preact";
import { App } from "./app";
import "./style.css";
import "./graph/graph.css";
import "./job/job.css";
import "./jobs/jobs.css";
import { applyTheme } from "./theme";

applyTheme();
render(<App />, document.getElementById("app")!);
