import { Empty, Page } from "../parts";
import type { PageProps } from "../routes";

export function CheckpointsPage(_: PageProps) {
  return (
    <Page title="Checkpoints">
      <Empty title="Nothing here yet" />
    </Page>
  );
}
