import { Empty, Page } from "../parts";
import type { PageProps } from "../routes";

export function RunPage(_: PageProps) {
  return (
    <Page title="Run">
      <Empty title="Nothing here yet" />
    </Page>
  );
}
