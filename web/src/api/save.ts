// Saves what the server answers as a file. A link would not send the key.

import { request } from "./client";

export async function save(path: string, name: string): Promise<void> {
  const content = await (await request(path, "operator")).blob();
  const link = document.createElement("a");
  link.href = URL.createObjectURL(content);
  link.download = name;
  link.click();
  URL.revokeObjectURL(link.href);
}
