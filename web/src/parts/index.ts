// What pages are made of.

export { Badge } from "./badge";
export { ConfirmButton, type ConfirmProps } from "./confirm";
export { CopyButton } from "./copy";
export { Dialog } from "./dialog";
export { Empty } from "./empty";
export { Icon } from "./icon";
export { Json } from "./json";
export { Page } from "./page";
export { Problem } from "./problem";
export { type Column, Table } from "./table";
export { Tabs } from "./tabs";
export { Stretch, Time } from "./time";
export { say, sayProblem, Toasts } from "./toast";
