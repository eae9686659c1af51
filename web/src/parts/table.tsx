import type { ComponentChildren } from "preact";

export interface Column<T> {
  head: string;
  cell: (row: T) => ComponentChildren;
  class?: string; // `number`, `grow`, `fit`
}

// Rows and columns; on a phone every row is a card, with the heads beside the values.
export function Table<T>(props: {
  label: string;
  columns: Column<T>[];
  rows: T[];
  keyOf: (row: T) => string;
  rowClass?: (row: T) => string;
  isBusy?: boolean;
  class?: string;
}) {
  return (
    <div class="table-box">
      <table class={`table ${props.class ?? ""}`} role="table" aria-label={props.label} aria-busy={props.isBusy ?? false}>
        <thead role="rowgroup">
          <tr role="row">
            {props.columns.map((column) => (
              <th key={column.head} role="columnheader" scope="col" class={column.class}>
                {column.head}
              </th>
            ))}
          </tr>
        </thead>
        <tbody role="rowgroup">
          {props.rows.map((row) => (
            <tr key={props.keyOf(row)} role="row" class={props.rowClass?.(row)}>
              {props.columns.map((column) => (
                <td key={column.head} role="cell" data-head={column.head} class={column.class}>
                  {column.cell(row)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
