import { Empty, Page } from "../parts";
import type { PageProps } from "../routes";

export function JobPage(props: PageProps) {
  return (
    <Page title={props.id}>
      <Empty title="Nothing here yet" />
    </Page>
  );
}
