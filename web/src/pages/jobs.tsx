import { Empty, Page } from "../parts";
import type { PageProps } from "../routes";

export function JobsPage(_: PageProps) {
  return (
    <Page title="Jobs">
      <Empty title="Nothing here yet" />
    </Page>
  );
}
