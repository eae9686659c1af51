// Which events open and close what a run does.

import type { Told } from "./types";

interface Opening {
  kind: string;
  name: (told: Told) => string;
  key: (told: Told) => string;
}

const numbered = (prefix: string, name: (told: Told) => unknown) => (told: Told) => `${prefix} ${told.run_id} ${name(told)}#${told.data.execution || told.data.attempt || 1}`;
const method = (told: Told) => told.data.method_name ?? "";
const step = (told: Told) => told.data.step || told.data.name || told.task_name || "";
const ofRun = (prefix: string) => (told: Told) => `${prefix} ${told.run_id}`;
const ofCall = (told: Told) => `llm ${told.data.call_id || told.run_id}`;
const ofTool = (told: Told) => `tool ${told.run_id} ${told.data.call_id || told.data.tool_name}`;
const ofAsk = (told: Told) => `human ${told.data.request_id || told.run_id}`;
const message = (told: Told) => String(told.data.message || "a question");

export const OPENS: Record<string, Opening> = {
  method_execution_started: { kind: "method", name: method, key: numbered("method", method) },
  task_started: { kind: "task", name: step, key: numbered("task", step) },
  step_started: { kind: "step", name: step, key: numbered("step", step) },
  flow_started: { kind: "flow", name: (told) => told.data.flow_name, key: ofRun("flow") },
  crew_kickoff_started: { kind: "crew", name: (told) => told.data.crew_name, key: ofRun("crew") },
  agent_execution_started: { kind: "agent", name: (told) => told.agent_role ?? told.path?.[told.path.length - 1] ?? "agent", key: ofRun("agent") },
  llm_call_started: { kind: "model", name: (told) => told.data.model || "model", key: ofCall },
  tool_usage_started: { kind: "tool", name: (told) => told.data.tool_name, key: ofTool },
  human_feedback_requested: { kind: "person", name: message, key: ofAsk },
  human_input_requested: { kind: "person", name: message, key: ofAsk },
  flow_input_requested: { kind: "person", name: message, key: ofAsk },
};

// What the run itself is: its own acts stand at the top, not below one of these.
export const AROUND = ["flow", "crew", "agent"];

interface Closing {
  status: string;
  opener: string; // an event that opens what this one closes
}

const ends = (opener: string, ...types: [string, string][]) => types.map(([type, status]): [string, Closing] => [type, { status, opener }]);

export const CLOSES: Record<string, Closing> = Object.fromEntries([
  ...ends("method_execution_started", ["method_execution_finished", "completed"], ["method_execution_failed", "failed"], ["method_execution_cancelled", "cancelled"], ["method_execution_paused", "waiting"]),
  ...ends("task_started", ["task_completed", "completed"], ["task_failed", "failed"], ["task_cancelled", "cancelled"], ["task_skipped", "skipped"], ["task_paused", "waiting"]),
  ...ends("step_started", ["step_completed", "completed"], ["step_failed", "failed"], ["step_cancelled", "cancelled"], ["step_waiting", "waiting"]),
  ...ends("flow_started", ["flow_finished", "completed"], ["flow_failed", "failed"], ["flow_cancelled", "cancelled"], ["flow_paused", "waiting"]),
  ...ends("crew_kickoff_started", ["crew_kickoff_completed", "completed"], ["crew_kickoff_failed", "failed"], ["crew_kickoff_cancelled", "cancelled"], ["crew_kickoff_paused", "waiting"]),
  ...ends("agent_execution_started", ["agent_execution_completed", "completed"], ["agent_execution_error", "failed"], ["agent_execution_cancelled", "cancelled"], ["agent_execution_paused", "waiting"]),
  ...ends("llm_call_started", ["llm_call_completed", "completed"], ["llm_call_failed", "failed"], ["llm_call_cancelled", "cancelled"], ["llm_call_paused", "waiting"]),
  ...ends("tool_usage_started", ["tool_usage_finished", "completed"], ["tool_usage_error", "failed"], ["tool_usage_cancelled", "cancelled"], ["tool_usage_paused", "waiting"]),
  ...ends("human_input_requested", ["human_feedback_received", "completed"], ["human_input_received", "completed"], ["flow_input_received", "completed"], ["human_request_timed_out", "failed"], ["human_request_cancelled", "cancelled"]),
]);

export const RUN_STATUSES: Record<string, string> = {
  run_started: "running",
  run_resumed: "running",
  run_waiting: "waiting",
  run_paused: "paused",
  run_completed: "completed",
  run_failed: "failed",
  run_cancelled: "cancelled",
};

export const ofCallId = ofCall;
