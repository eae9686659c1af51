import { Empty, Page } from "../parts";
import type { PageProps } from "../routes";

export function FlowPage(_: PageProps) {
  return (
    <Page title="Flow">
      <Empty title="Nothing here yet" />
    </Page>
  );
}
