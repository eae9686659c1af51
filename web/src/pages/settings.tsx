import { Empty, Page } from "../parts";
import type { PageProps } from "../routes";

export function SettingsPage(_: PageProps) {
  return (
    <Page title="Settings">
      <Empty title="Nothing here yet" />
    </Page>
  );
}
