import { Empty, Page } from "../parts";
import type { PageProps } from "../routes";

export function ResourcesPage(_: PageProps) {
  return (
    <Page title="Resources">
      <Empty title="Nothing here yet" />
    </Page>
  );
}
