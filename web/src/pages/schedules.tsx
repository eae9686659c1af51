import { Empty, Page } from "../parts";
import type { PageProps } from "../routes";

export function SchedulesPage(_: PageProps) {
  return (
    <Page title="Schedules">
      <Empty title="Nothing here yet" />
    </Page>
  );
}
