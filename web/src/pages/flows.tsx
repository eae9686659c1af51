import { Empty, Page } from "../parts";
import type { PageProps } from "../routes";

export function FlowsPage(_: PageProps) {
  return (
    <Page title="Flows">
      <Empty title="Nothing here yet" />
    </Page>
  );
}
