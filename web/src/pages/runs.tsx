import { Empty, Page } from "../parts";
import type { PageProps } from "../routes";

export function RunsPage(_: PageProps) {
  return (
    <Page title="Runs">
      <Empty title="Nothing here yet" />
    </Page>
  );
}
