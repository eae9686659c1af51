import { Empty, Page } from "../parts";
import type { PageProps } from "../routes";

export function StartPage(_: PageProps) {
  return (
    <Page title="Start">
      <Empty title="Nothing here yet" />
    </Page>
  );
}
