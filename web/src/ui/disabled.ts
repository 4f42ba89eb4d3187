/** The attributes of a control that is disabled while there is a reason, which is its title then. */
export function disabledBy(reason: string | null, title?: string): { disabled: boolean; title?: string } {
  const shown = reason || title;
  return { disabled: Boolean(reason), ...(shown && { title: shown }) };
}
